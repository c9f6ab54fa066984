# Says what is wrong with the directory $1, which is made if nothing is wrong with where it goes.
# A directory of others is told by its owner, one that they can write to by its mode: in one with
# the sticky bit they can rename and remove only what is theirs.
set -e
umask 022
closed() {
    mode=$(stat -c %a "$1")
    [ $((0$mode & 022)) = 0 ] || [ $((0$mode & 01000)) != 0 ] || {
        echo "others may write to $(cd "$1" && pwd -P) (mode $mode)"; exit 66; }
}
there=$1
while [ ! -e "$there" ]; do there=$(dirname "$there"); done
closed "$there"
mkdir -p "$1"
closed "$1/."
closed "$1/.."
owner=$(stat -c %u "$1/.")
[ "$owner" = "$(id -u)" ] || { echo "it belongs to user $owner, not to $(id -un)"; exit 66; }
