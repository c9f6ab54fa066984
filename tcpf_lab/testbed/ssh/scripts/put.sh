# Takes the content of the file $1, whose SHA-256 is $2 and whose mode is $3.
set -e
umask 022
mkdir -p "$(dirname "$1")"
trap 'rm -f "$1.$$"' EXIT
cat > "$1.$$"
[ "$(sha256sum < "$1.$$")" = "$2  -" ] || { echo 'damaged on its way' >&2; exit 65; }
chmod "$3" "$1.$$"
mv -f "$1.$$" "$1"
