#!/usr/bin/env perl
# SPDX-License-Identifier: MIT
#
# leak.pl ARCHIVE [SHARED]: no instruction of the archive lies above the level of the object it is in. An object belongs to the
# level in its kernels' names (seqmix_<op>__avx2); every other object, and cpu-generic, is plain x86-64. The shared library is
# linked from the same objects: it must hold just as many such instructions, so none came in from elsewhere. Needs objdump.
use strict;
use warnings;

my @names = ('x86-64', 'AVX2', 'AVX-512', 'AMX', 'no level');
my %rank = (common => 0, generic => 0, avx2 => 1, avx512 => 2, amx => 3);

# The level that an instruction needs, by its encoding where no mnemonic tells.
sub needed {
    my ($bytes, $text) = @_;
    return 4 if $text =~ /^v(?!cvtps2ph)\w+[ps]h\b/;
    return 4 if $text =~ /^v(pdp|pmadd52|permb|permi2b|permt2b|psh[lr]d|p(compress|expand)[bw]|popcnt|p2intersect)/;
    return 3 if $text =~ /^(ldtilecfg|sttilecfg|tile|tdp)|^v(dp|cvtne)\w*bf16/;
    return 2 if $bytes =~ /^(?:(?:26|2e|36|3e|64|65|67) )*62/ || $text =~ /^k[a-z]+[bwdq]\b/;
    return 1 if $bytes =~ /^(?:(?:26|2e|36|3e|64|65|67) )*c[45]/ || $text =~ /^(movbe|lzcnt)\b/;
    return 0;
}

# One hash per object: name, level, how many instructions need each level, and the first of them.
sub objects {
    my ($file) = @_;
    my @found;
    my $function = '';
    open(my $dump, '-|', 'objdump', '-dw', $file) or die "leak.pl: objdump: $!\n";
    while (my $line = <$dump>) {
        if ($line =~ /^(\S.*):\s+file format/) {
            push @found, {name => $1, level => 'common', count => [0, 0, 0, 0, 0], first => []};
        } elsif ($line =~ /^[0-9a-f]+ <(.*)>:$/) {
            $function = $1;
            $found[-1]{level} = $1 if $function =~ /^seqmix_\w+__(generic|avx2|avx512|amx)$/;
        } elsif ($line =~ /^\s+[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*\t(\S.*)/) {
            my ($bytes, $text) = ($1, $2);
            my $need = needed($bytes, $text);
            $found[-1]{count}[$need]++;
            $found[-1]{first}[$need] //= "$function: $text";
        }
    }
    close($dump) or die "leak.pl: objdump $file failed\n";
    return @found;
}

my ($archive, $shared) = @ARGV;
die "usage: leak.pl ARCHIVE [SHARED]\n" unless defined $archive;
my ($leaks, %objects, %total) = (0);
for my $object (objects($archive)) {
    $objects{$object->{level}}++;
    for my $need (0 .. 4) {
        $total{$object->{level}}[$need] += $object->{count}[$need];
        next if $need <= $rank{$object->{level}} || $object->{count}[$need] == 0;
        print "LEAK $object->{name} ($object->{level}): $object->{count}[$need] instructions of $names[$need], ",
            "the first in $object->{first}[$need]\n";
        $leaks++;
    }
}
for my $level (sort { $rank{$a} <=> $rank{$b} || $a cmp $b } keys %objects) {
    my @counts = map { "$total{$level}[$_] $names[$_]" } 0 .. $rank{$level};
    print "$level: $objects{$level} objects, instructions: ", join(', ', @counts), "\n";
    next unless $rank{$level} > 0 && $total{$level}[$rank{$level}] == 0;
    print "LEAK $level: not one instruction of its level, so something else is tested here\n";
    $leaks++;
}
if (defined $shared) {
    my @wide = (0, 0, 0, 0, 0);
    for my $object (objects($shared)) { $wide[$_] += $object->{count}[$_] for 1 .. 4; }
    for my $need (1 .. 4) {
        my $here = 0;
        $here += $_->[$need] for values %total;
        next if $here == $wide[$need];
        print "LEAK $shared: $wide[$need] instructions of $names[$need], the archive has $here\n";
        $leaks++;
    }
}
print "$leaks leaks\n";
exit($leaks > 0);
