# Sourced by ./test and ./demo: finds what the build needs and installs what is missing.
# Needs rustup's Rust; Debian packages are installed by apt where we may, else named.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What the build needs: compilers of C and C++, and what librdkafka is built with.
build_packages=(build-essential pkg-config libssl-dev zlib1g-dev)

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# How apt is called from here; empty where it may not be.
may_install() { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
apt() { $([ "$(id -u)" -eq 0 ] || echo sudo) env DEBIAN_FRONTEND=noninteractive apt-get "$@" >/dev/null 2>&1; }

# Installs in one go; where that fails, once more with fresh lists.
install() { apt install -y -q --no-install-recommends "$@" || { apt update -q && apt install -y -q --no-install-recommends "$@"; }; }

# Packages without which nothing works, then, after `--`, those without which tests are skipped.
need_packages() {
  local missing=() wished=() package is_wish=
  for package in "$@"; do
    if [ "$package" = -- ]; then is_wish=1; continue; fi
    installed "$package" && continue
    if [ "$is_wish" ]; then wished+=("$package"); else missing+=("$package"); fi
  done
  [ $((${#missing[@]} + ${#wished[@]})) -eq 0 ] && return 0
  if ! may_install; then
    [ ${#wished[@]} -eq 0 ] || echo "Tests that need one of these packages are skipped: ${wished[*]}" >&2
    [ ${#missing[@]} -eq 0 ] && return 0
    echo "These Debian packages are missing and may not be installed from here: ${missing[*]}" >&2
    echo "Install them with: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  echo "Installing Debian packages: ${missing[*]} ${wished[*]}" >&2
  # Most of the time of a call is apt's own: one call for all, and one by one only if it fails.
  install "${missing[@]}" "${wished[@]}" && return 0
  if [ ${#missing[@]} -gt 0 ] && ! install "${missing[@]}"; then
    echo "apt-get install fails for: ${missing[*]}" >&2
    exit 2
  fi
  for package in "${wished[@]}"; do
    apt install -y -q --no-install-recommends "$package" || echo "Tests that need this package are skipped: $package" >&2
  done
}

# A server that tests start by themselves is not to run as a service.
stop_service() { systemctl disable --now "$1" >/dev/null 2>&1 || service "$1" stop >/dev/null 2>&1 || true; }

if ! command -v cargo >/dev/null; then
  [ -e "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust with rustup (https://rustup.rs), then run this again" >&2
  exit 2
fi

# Build output is shared between clones where a cache folder can be made; nothing depends on it.
cache=${HEADWATER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headwater}
if [ -z "${CARGO_TARGET_DIR:-}" ] && mkdir -p "$cache/target" 2>/dev/null; then
  export CARGO_TARGET_DIR="$cache/target"
fi
target=${CARGO_TARGET_DIR:-target}
# Every clone is another path: what would be kept for its next build only fills the disk.
export CARGO_INCREMENTAL=0

# GB that are free where build output goes.
free_gb() { mkdir -p "$target" && df --output=avail -BG "$target" | tail -1 | tr -dc 0-9; }

# The crates of each clone are built for it alone, so their output in the shared cache grows with every
# clone. Keeps the two newest of each file; where that leaves too little room, nothing of the cache. A disk
# that fills up while the linker writes ends in a signal and not in a message.
need_room() {
  local kind
  for kind in deps examples; do
    [ "$target" = "$cache/target" ] && [ -d "$target/debug/$kind" ] || continue
    find "$target/debug/$kind" -maxdepth 1 -type f \( ! -name '*.*' -o -name 'libheadwater_*' \) -printf '%T@ %p\n' |
      sort -rn | awk '{ name = $2; sub(/-[0-9a-f]+$/, "", name); sub(/-[0-9a-f]+[.]/, ".", name); if (seen[name]++ >= 2) print $2 }' |
      xargs -r rm -f
  done
  if [ "$(free_gb)" -lt 6 ] && [ "$target" = "$cache/target" ]; then
    echo "Only $(free_gb) GB are free: the build output in $target is deleted and built again" >&2
    rm -rf "$target"
  fi
  if [ "$(free_gb)" -lt "$1" ] && [ ! -d "$target/debug/deps" ]; then
    echo "A build needs $1 GB, and $(free_gb) GB are free in $target: make room, or set CARGO_TARGET_DIR" >&2
    exit 2
  fi
}

# Keeps the seconds of each part of a command, and prints them at its end beside those of the last run.
times_begin() {
  times_file=$cache/times/$1; part_names=(); part_seconds=(); part_now=; began=$SECONDS
  trap 'times_end $?' EXIT
}
part() { part_done; part_now=$*; part_began=$SECONDS; printf '\n== %s\n' "$*"; }
part_done() {
  [ -n "$part_now" ] || return 0
  part_names+=("$part_now"); part_seconds+=($((SECONDS - part_began))); part_now=
}
times_end() {
  part_done
  local all=$((SECONDS - began)) at before
  printf '\n%-62s%8s%8s\n' 'seconds' 'before' 'now'
  for at in "${!part_names[@]}"; do
    before=$(awk -F'\t' -v name="${part_names[$at]}" '$1 == name { print $2 }' "$times_file" 2>/dev/null || true)
    printf '%-62s%8s%8s\n' "${part_names[$at]}" "${before:--}" "${part_seconds[$at]}"
  done
  before=$(awk -F'\t' '$1 == "all" { print $2 }' "$times_file" 2>/dev/null || true)
  printf '%-62s%8s%8s\n' all "${before:--}" "$all"
  # A run that failed says nothing about the next.
  [ "$1" -eq 0 ] && mkdir -p "${times_file%/*}" 2>/dev/null || return 0
  { for at in "${!part_names[@]}"; do printf '%s\t%s\n' "${part_names[$at]}" "${part_seconds[$at]}"; done; printf 'all\t%s\n' "$all"; } 2>/dev/null >"$times_file" || true
}

# The reference material lies beside a developer's checkout; a user has none.
export HEADWATER_SHARED=${HEADWATER_SHARED:-$PWD/../shared}
