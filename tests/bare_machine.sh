#!/bin/sh
# The README's two commands on a bare machine: in a new clone that is called tvmrt, with a PATH that
# holds Python, a C compiler, make, git and the base system's commands, and without TVMRT_MODELS.
#
#   tests/bare_machine.sh [WORK]     WORK is the folder for the clone; without it, one in TMPDIR that
#                                    is removed at the end
#
# The clone is of the last commit. PYTHON names the interpreter. pip's cache and settings are used
# where they are.
set -eu
cd "$(dirname "$0")/.."
sources=$PWD
if [ $# -gt 0 ]; then
  mkdir -p "$1"
  work=$(cd "$1" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# cc starts as and ld; ar makes static libraries.
tools="make git as ld ar"
base="sh basename cat chmod cmp cp cut date dirname du echo env expr false find grep head id install
  kill ln ls mkdir mktemp mv nice nproc printf pwd readlink rm rmdir sed seq sleep sort stat tail tee
  test touch tr true uname uniq wc xargs"

# Print the path of a command, even if the shell has it built in.
path_of() {
  for folder in $(echo "$PATH" | tr : ' '); do
    if [ -x "$folder/$1" ]; then
      echo "$folder/$1"
      return
    fi
  done
  echo "bare_machine.sh: there is no $1 here" >&2
  exit 2
}

rm -rf "$work/bin"
mkdir "$work/bin"
PATH=$(echo "$PATH" | sed 's,[^:]*/ccache:,,g')
# the interpreter itself: the command may be a script that uses other tools
ln -s "$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')" "$work/bin/python3"
for name in cc $tools $base; do
  ln -s "$(path_of "$name")" "$work/bin/$name"
done

# The folder may belong to somebody else, as in containers.
printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
rm -rf "$work/tvmrt"
GIT_CONFIG_GLOBAL=$work/gitconfig git clone --quiet "$sources" "$work/tvmrt"
# Keep the installer's cache and settings; drop the environment's settings of compilers and tests.
PIP_CACHE_DIR=${PIP_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/}/.cache}/pip}
XDG_CACHE_HOME=$work/cache
export PIP_CACHE_DIR XDG_CACHE_HOME
for name in $(env | sed -n 's/^\([A-Z_]*\)=.*/\1/p'); do
  case $name in
    TVMRT_* | PYTHON* | CCACHE_* | *FLAGS | CC | CXX | AR | VENV | VIRTUAL_ENV) unset "$name" ;;
  esac
done
PATH=$work/bin
export PATH

failed=0
for job in demo test; do
  started=$(date +%s)
  code=0
  "$work/tvmrt/run" "$job" || code=$?
  echo "bare machine: ./run $job ends with $code after $(($(date +%s) - started)) s"
  [ $code = 0 ] || failed=1
done
exit $failed
