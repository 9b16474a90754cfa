# shellcheck shell=bash
# What the scripts beside this file share; sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

# fail MESSAGE [CODE]: one line on stderr, then the end. Code 2: the call is wrong.
fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}

# Prints the comment that opens the calling script, as its help.
print_help() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# packages_of SECTION...: the names in those sections of packages.txt.
packages_of() {
  local section
  for section in "$@"; do
    awk -v want="$section" '
      /^# \[[a-z]+\]$/ { section = substr($2, 2, length($2) - 2); next }
      { sub(/#.*/, ""); gsub(/[ \t]/, "") }
      $0 != "" && section == want' "$root/scripts/packages.txt"
  done
}

# as_root COMMAND...: directly, or through sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    fail "needs root for '$*': run it as root, or install sudo"
  fi
}

# How many compilers may run at once: one a core, but a file that includes libtorch takes over 1 GB.
build_jobs() {
  local cores memory_kb limit quota period
  cores=$(nproc)
  if read -r quota period 2> /dev/null < /sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
    quota=$((quota / period)) # a container's own share of the processors
    [ "$quota" -lt 1 ] && quota=1
    [ "$quota" -lt "$cores" ] && cores=$quota
  fi
  memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2> /dev/null || true)  # a container's own limit, in bytes
  case "$limit" in
    '' | max) ;;
    *) [ $((limit / 1024)) -lt "$memory_kb" ] && memory_kb=$((limit / 1024)) ;;
  esac
  local by_memory=$((memory_kb / 1400000))
  [ "$by_memory" -lt 1 ] && by_memory=1
  [ "$by_memory" -lt "$cores" ] && cores=$by_memory
  echo "$cores"
}

# stage NAME COMMAND...: runs it, says how long it took, ends the script if it fails. What all the
# stages took so far is in $stages.
stages=
stage() {
  local name=$1 begin=$SECONDS
  shift
  say "$name"
  "$@" || fail "$name failed after $((SECONDS - begin)) s"
  say "$name: $((SECONDS - begin)) s"
  stages+="${stages:+, }$name $((SECONDS - begin)) s"
}
