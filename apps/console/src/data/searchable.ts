// As the service forms a secret: prefix, shard, 26 random characters, checksum.
const own = /^([A-Za-z]\w{0,31}_\d\d[0-9A-Za-z]{2})[0-9A-Za-z]{26}([0-9A-Za-z]{4})$/;
const id = /^[a-z]+_[0-9a-z]{26}$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const MOST = 128;

/** What is looked for by a text. Of a whole secret it is the masked form: the secret leaves the field for nowhere. */
export function searchable(text: string): string {
  const masked = own.exec(text);
  if (masked) return `${masked[1]}****${masked[2]}`;
  // A secret that was made elsewhere: long, without blanks, with letters and digits.
  const isForeign =
    text.length >= 24 && /^(?=.*\d)(?=.*[a-z])[!-~]+$/i.test(text) && !id.test(text) && !uuid.test(text);
  return isForeign ? `${text.slice(0, 4)}****${text.slice(-4)}` : text.slice(0, MOST);
}
