#!/bin/sh
# Installs Atoll from its tarball into a home folder, without root. Checks who made it first.
#
#   ./install.sh [OPTIONS] atoll-VERSION-linux-MACHINE.tar.zst
#                                       MACHINE is x86_64 or aarch64, as `uname -m` prints it
#   ./install.sh [OPTIONS]              beside the tarballs: the one for this machine; or inside an
#                                       unpacked tarball that was checked before
#   ./install.sh --remove
#
#   --key FILE       the public key of whoever made the release, from a source that you trust; kept
#                    in ~/.config/atoll/release-key.pem, where later calls find it
#   --unsigned       check the checksum, and not who made it
#   --prefix DIR     where to (default: ~/.local)
#   --torch          fetch the PyTorch that the worker needs, by pip (needs python3); without an
#                    NVIDIA GPU only what a CPU needs
#   --torch=FOLDER   take this one: a folder "torch" of a Python environment's site-packages
#   --units          put units for `systemd --user` into ~/.config/systemd/user
#   --remove         take away what this script has installed; runs, keys and tokens stay
#
# SHA256SUMS and SHA256SUMS.sig must lie beside the tarball.
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit "${2:-1}"
}
need() { command -v "$1" > /dev/null || fail "$1 is not installed: $2"; }

prefix=$HOME/.local key='' unsigned=no torch='' units=no remove=no tarball=''
pinned=${XDG_CONFIG_HOME:-$HOME/.config}/atoll/release-key.pem
unit_folder=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
while [ $# -gt 0 ]; do
  case $1 in
    --key | --prefix)
      [ $# -ge 2 ] || fail "$1 needs a value (see --help)" 2
      if [ "$1" = --key ]; then key=$2; else prefix=$(readlink -m "$2"); fi
      shift
      ;;
    --unsigned) unsigned=yes ;;
    --torch) torch=fetch ;;
    --torch=*)
      torch=$(readlink -m "${1#*=}")
      [ -e "$torch/lib/libtorch_cpu.so" ] || fail "$torch has no lib/libtorch_cpu.so" 2
      ;;
    --units) units=yes ;;
    --remove) remove=yes ;;
    -h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
    -*) fail "unknown option $1 (see --help)" 2 ;;
    *) tarball=$1 ;;
  esac
  shift
done
home=$prefix/lib/atoll
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Takes away the links into $home that an installation has made, and the units.
remove_links() {
  for folder in bin share/man/man1 share/bash-completion/completions; do
    for link in "$prefix/$folder"/*; do
      case $(readlink "$link") in "$home"/*) rm "$link" ;; esac
    done
  done
  for unit in "$unit_folder"/atoll-*.service; do
    [ ! -e "$unit" ] || ! grep -q '^# By install.sh of Atoll' "$unit" || rm "$unit"
  done
}
if [ "$remove" = yes ]; then
  [ -d "$home" ] || fail "nothing is installed in $home"
  remove_links
  rm -rf "$home"
  echo "removed $home and its links"
  exit 0
fi

# check FOLDER NAME: that the file is what its maker has signed.
check() {
  [ -e "$1/SHA256SUMS" ] || fail "$1/SHA256SUMS is missing: it comes with the tarball"
  if [ "$unsigned" = no ]; then
    need openssl "it checks the signature (--unsigned checks the checksum alone)"
    [ -e "$1/SHA256SUMS.sig" ] || fail "$1/SHA256SUMS.sig is missing: nobody has signed this"
    if [ -n "$key" ]; then
      openssl pkey -pubin -in "$key" -noout 2> /dev/null || fail "$key is no public key" 2
      [ ! -e "$pinned" ] || cmp -s "$key" "$pinned" ||
        fail "$key is not the key of earlier releases, $pinned: remove that one if it has changed"
    elif [ -e "$pinned" ]; then
      key=$pinned
    else
      fail "whose release is this? Pass --key FILE with the maker's public key, or --unsigned"
    fi
    openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$1/SHA256SUMS" \
      -sigfile "$1/SHA256SUMS.sig" > /dev/null 2>&1 ||
      fail "the signature is not by the key in $key: this is not that maker's release"
  fi
  grep -q "  $2\$" "$1/SHA256SUMS" || fail "$1/SHA256SUMS does not name $2"
  (cd "$1" && grep "  $2\$" SHA256SUMS | sha256sum -c --status -) ||
    fail "$1/$2 is not the file that was released: its SHA-256 differs"
  if [ "$unsigned" = no ] && [ "$key" != "$pinned" ]; then
    mkdir -p "$(dirname "$pinned")"
    cp "$key" "$pinned"
  fi
}

machine=$(uname -m)
here=$(dirname "$(readlink -f "$0")")
if [ -n "$tarball" ]; then
  [ -r "$tarball" ] || fail "$tarball: no such file, or not readable" 2
elif [ ! -x "$here/atoll/bin/atolld" ]; then
  set -- "$here"/atoll-*-linux-*.tar.zst
  [ -e "$1" ] || fail "which tarball? (see --help)" 2
  set -- "$here"/atoll-*-linux-"$machine".tar.zst
  [ -e "$1" ] || fail "there is no tarball for $machine in $here" 2
  [ $# -eq 1 ] || fail "there are $# tarballs for $machine in $here: name one" 2
  tarball=$1
fi
if [ -n "$tarball" ]; then
  for_machine=${tarball##*-linux-}
  for_machine=${for_machine%.tar.zst}
else
  case $(od -An -tu2 -j18 -N2 "$here/atoll/bin/atolld") in # that field of an ELF file's header
    *' 62') for_machine=x86_64 ;;
    *' 183') for_machine=aarch64 ;;
    *) for_machine=$machine ;;
  esac
fi
[ "$for_machine" = "$machine" ] ||
  fail "${tarball:-$here} is for $for_machine, and this machine is $machine" 2

mkdir -p "$home"
work=$(mktemp -d "$home/.new.XXXXXX")
if [ -n "$tarball" ]; then
  need tar "it unpacks the tarball"
  need zstd "it unpacks the tarball"
  check "$(dirname "$(readlink -f "$tarball")")" "$(basename "$tarball")"
  zstd -dcq "$tarball" | tar -x -C "$work"
  set -- "$work"/atoll-*
  unpacked=$1
else
  cp -R "$here" "$work/"
  unpacked=$work/$(basename "$here")
fi
name=$(basename "$unpacked")

case $torch in
  '') # what an installation of the same version has stays
    for part in torch python; do
      [ ! -e "$home/$name/$part" ] || mv "$home/$name/$part" "$unpacked/$part"
    done
    ;;
  fetch)
    need python3 "pip fetches PyTorch: or pass --torch=FOLDER"
    [ -e "$unpacked/atoll/fetch_torch.py" ] || fail "this Atoll was made without the native worker"
    python3 -m venv "$unpacked/python" || fail "python3 has no module venv (Debian: python3-venv)"
    "$unpacked/python/bin/python" "$unpacked/atoll/fetch_torch.py" ||
      fail "pip could not fetch PyTorch"
    set -- "$unpacked"/python/lib/python3*/site-packages/torch
    ln -s "${1#"$unpacked/"}" "$unpacked/torch"
    ;;
  *) ln -s "$torch" "$unpacked/torch" ;;
esac

# The new one takes the old one's place as a whole; daemons that run keep what they have open.
rm -rf "$home/$name.old"
[ ! -e "$home/$name" ] || mv "$home/$name" "$home/$name.old"
mv "$unpacked" "$home/$name"
rm -rf "$home/$name.old"
remove_links
link() { # link FOLDER FILE...: what PATH, man and shells look for
  mkdir -p "$prefix/$1"
  folder=$prefix/$1
  shift
  ln -sf "$@" "$folder"
}
link bin "$home/$name"/atoll/bin/*
link share/man/man1 "$home/$name"/share/man/man1/*
link share/bash-completion/completions "$home/$name"/share/bash-completion/completions/*
if [ "$units" = yes ]; then
  mkdir -p "$unit_folder"
  for unit in "$home/$name"/share/systemd/user/*.service; do
    { echo "# By install.sh of Atoll"
      sed "s|@BIN@|$prefix/bin|" "$unit"; } > "$unit_folder/$(basename "$unit")"
  done
  echo "units: $unit_folder/atoll-coordinator.service, atoll-peer@.service"
fi
version=$("$prefix/bin/atoll" --version | head -n 1)
echo "installed $version in $home/$name, with links in $prefix/bin"
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) echo "put them on PATH: export PATH=$prefix/bin:\$PATH" ;;
esac
[ -e "$home/$name/torch" ] || echo "the worker needs PyTorch: install.sh --torch fetches it"
