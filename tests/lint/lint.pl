#!/usr/bin/perl
# SPDX-License-Identifier: MIT
#
# The text rules of the house: rooms.txt, includes.txt, and what holds for every file. Reads file names, one a line, relative
# to the current folder; prints "file:line: rule: message" for each violation. Exit status 1 when there is one.
use strict;
use warnings;
use File::Basename qw(dirname);

my $LINES_MAX    = 800;
my $FUNCTION_MAX = 80;
my $KERNEL_MAX   = 150;
my @INCLUDE_DIRS = qw(src/common src/cpu src/cuda src include src/model tests/check tests/emu bench .);

my $here = dirname($0);
my ($violations, $files) = (0, 0);

sub report {
    my ($file, $line, $rule, $message) = @_;
    print "$file:$line: $rule: $message\n";
    $violations++;
}

# Whether a path is one of the places; "folder/" covers what is below it, "*" matches within a name.
sub inside {
    my ($path, @places) = @_;
    for my $place (@places) {
        my $pattern = join '[^/]*', map { quotemeta } split /\*/, $place, -1;
        return 1 if $path =~ ($place =~ m{/$} ? qr/^$pattern/ : qr/^$pattern$/);
    }
    return 0;
}

sub lines_of {
    my ($name) = @_;
    open my $in, '<', "$here/$name" or die "$here/$name: $!\n";
    my @lines = grep { !/^\s*(#|$)/ } <$in>;
    chomp @lines;
    return @lines;
}

my (@rooms, %includes);
for (lines_of('rooms.txt')) {
    if (/^(\S[^:]*):\s+(.+)$/) {
        push @rooms, { name => $1, pattern => qr/$2/ };
    } elsif (@rooms && /^\s+(only|never) in:\s+(.+)$/) {
        $rooms[-1]{$1} = [ split ' ', $2 ];
    } else {
        die "rooms.txt: cannot read \"$_\"\n";
    }
}
for (lines_of('includes.txt')) {
    /^(\S+):\s+(.+)$/ or die "includes.txt: cannot read \"$_\"\n";
    $includes{$1} = [ split ' ', $2 ];
}

# Blanks comments, and with $strings also the text of literals; line breaks stay.
sub blank {
    my ($text, $strings) = @_;
    my $spaces = sub { (my $s = $_[0]) =~ s/[^\n]/ /g; $s };
    $text =~ s{(/\*.*?\*/|//[^\n]*)|(")((?:[^"\\\n]|\\.)*)(")|('(?:[^'\\\n]|\\.)+')}
              {defined $1 ? $spaces->($1) : defined $5 ? $5 : $strings ? $2 . $spaces->($3) . $4 : "$2$3$4"}gse;
    return $text;
}

sub check_rooms {
    my ($file, $code) = @_;
    my @lines = split /\n/, $code;
    for my $room (@rooms) {
        next if $room->{only} && inside($file, @{ $room->{only} });
        next if $room->{never} && !inside($file, @{ $room->{never} });
        for my $i (0 .. $#lines) {
            report($file, $i + 1, $room->{name}, "\"$&\" does not belong here") if $lines[$i] =~ $room->{pattern};
        }
    }
}

sub check_includes {
    my ($file, $code) = @_;
    my ($owner) = sort { length $b <=> length $a } grep { inside($file, $_) } keys %includes;
    my @allowed = $owner ? @{ $includes{$owner} } : ();
    my $number = 0;
    for my $line (split /\n/, $code) {
        $number++;
        next unless $line =~ /^\s*#\s*include\s*([<"])([^>"]+)[>"]/;
        my ($kind, $name) = ($1, $2);
        my $target;
        if ($kind eq '"') {
            ($target) = grep { -e } map { my $p = "$_/$name"; 1 while $p =~ s{(^|/)(?!\.\./)[^/]+/\.\./}{$1}; $p =~ s{^(\./)+}{}; $p }
                (dirname($file), @INCLUDE_DIRS);
            if (!$target) {
                report($file, $number, 'include', "\"$name\" is no file of the repository");
                next;
            }
        } elsif ($name =~ m{^seqmix/}) {
            $target = "include/$name";
        } else {
            next if grep { $_ eq '<>' || $_ eq "<$name>" } @allowed;
            $target = "<$name>";
        }
        next if grep { inside($target, $_) } @allowed;
        report($file, $number, 'include', "$target is not for " . ($owner // 'this folder'));
    }
}

# With the house's braces a function body is what stands between a "{" and a "}" in the first column.
sub check_functions {
    my ($file, $code) = @_;
    my $max = inside($file, 'src/cpu/kern/', 'src/cpu/x86/', 'src/cuda/') ? $KERNEL_MAX : $FUNCTION_MAX;
    my ($number, $begin) = (0, 0);
    for my $line (split /\n/, $code) {
        $number++;
        $begin = $number if $line =~ /^\{/;
        next unless $begin && $line =~ /^\}/;
        my $length = $number - $begin - 1;
        report($file, $begin, 'function length', "$length lines, at most $max") if $length > $max;
        $begin = 0;
    }
}

sub check_text {
    my ($file, $text) = @_;
    my @lines = split /\n/, $text, -1;
    my $first = ($lines[0] =~ /^#!/ ? $lines[1] : $lines[0]) // '';
    report($file, 1, 'licence', 'the first line names no SPDX licence')
        unless $file =~ m{(\.json|(^|/)\.[^/]+|(^|/)LICENSE)$} || $first =~ /SPDX-License-Identifier: MIT\b/;
    report($file, scalar @lines, 'end of file', 'no line break at the end') if $lines[-1] ne '';
    report($file, scalar @lines, 'end of file', 'blank line at the end') if $text =~ /\n\n$/;
    pop @lines if $lines[-1] eq '';
    report($file, scalar @lines, 'file length', @lines . " lines, at most $LINES_MAX")
        if @lines > $LINES_MAX && $file ne 'include/seqmix/seqmix.h' && $file !~ /\.md$/;

    my $rules = inside($file, 'tests/lint/');
    for my $i (0 .. $#lines) {
        my $at = $i + 1;
        local $_ = $lines[$i];
        report($file, $at, 'tab', 'spaces only') if /\t/;
        report($file, $at, 'trailing blank', 'blank before the line break') if /[ \t\r]$/;
        report($file, $at, 'control character', sprintf '0x%02x', ord $1) if /([\x00-\x08\x0b\x0c\x0e-\x1f\x7f])/;
        # NBSP, soft hyphen; zero-width, bidirectional and word joiners; byte order mark
        report($file, $at, 'invisible character', 'a character that cannot be seen')
            if /\xc2[\xa0\xad]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf/;
        report($file, $at, 'open end', "\"$1\"") if !$rules && /\b(TODO|FIXME|XXX|HACK)\b/;
        report($file, $at, 'machine path', "\"$1\"") if !$rules && m{(?<![\w.\$\}\)/-])(/(?:home|root|work|Users|mnt)/\w)};
    }
}

while (my $file = <STDIN>) {
    chomp $file;
    open my $in, '<:raw', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> } // '';
    close $in;
    $files++;
    if ($text eq '') {
        report($file, 1, 'empty file', 'nothing in it');
        next;
    }
    check_text($file, $text);
    next unless $file =~ /\.(c|h|def|cpp|cu|cuh)$/;
    check_rooms($file, blank($text, 1));
    check_includes($file, blank($text, 0));
    check_functions($file, blank($text, 1));
}
print "text rules: $files files, $violations violations\n";
exit($violations ? 1 : 0);
