// Many files come as one: a line that names them with their lengths, then one after the other.
export function unpack(FS, bytes, folder) {
  const end = bytes.indexOf(10);
  let at = end + 1;
  for (const [name, size] of JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)))) {
    const place = `${folder}/${name}`;
    FS.mkdirTree(place.slice(0, place.lastIndexOf('/')));
    FS.writeFile(place, bytes.subarray(at, at + size));
    at += size;
  }
}
