#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The King James text of Debian's bible-kjv-text package, as plain lines.

    kjv_text.py OUT.txt [WORKDIR]

Needs only stock Python and, when the `bible` program is not installed, apt-get and dpkg-deb to
fetch the packages bible-kjv and bible-kjv-text into WORKDIR (nothing is installed). The text
itself is in the public domain. Output: one verse per line, one empty line between chapters.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


def verses(workdir):
    """All verses as (book, chapter, verse, text), in order."""
    prog, data = shutil.which("bible"), None
    if prog is None:
        root = os.path.join(workdir, "kjv")
        prog, data = os.path.join(root, "usr/bin/bible"), os.path.join(root, "usr/lib")
        if not os.path.exists(prog):
            os.makedirs(root, exist_ok=True)
            subprocess.run(["apt-get", "download", "bible-kjv", "bible-kjv-text"], cwd=root,
                           check=True, stdout=subprocess.DEVNULL)
            for deb in glob.glob(os.path.join(root, "*.deb")):
                subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    # The program looks for its data in the current directory first.
    out = subprocess.run([prog, "-f", "gen1:1-rev22:21"], cwd=data, check=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    res = []
    for line in out.decode("latin-1").splitlines():
        m = re.match(r"\s*(\d?[A-Za-z]+)(\d+):(\d+) (.*)", line)
        if m:
            res.append((m[1], int(m[2]), int(m[3]), " ".join(m[4].split())))
    assert len(res) == 31102, len(res)
    return res


def chapters(workdir=None):
    """The text of each chapter, verses joined by newlines."""
    with tempfile.TemporaryDirectory() as tmp:
        res, last = [], None
        for book, ch, _, text in verses(workdir or tmp):
            if (book, ch) != last:
                res.append([])
                last = (book, ch)
            res[-1].append(text)
    return ["\n".join(c) + "\n" for c in res]


if __name__ == "__main__":
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(chapters(sys.argv[2] if len(sys.argv) > 2 else None)))
