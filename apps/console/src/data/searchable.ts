// As the service forms a secret: prefix, shard, 26 random characters, checksum; wherever it stands in a text.
const own = /([A-Za-z]\w{0,31}_\d\d[0-9A-Za-z]{2})[0-9A-Za-z]{26}([0-9A-Za-z]{4})(?![0-9A-Za-z])/g;
const id = /^[a-z]+_[0-9a-z]{26}$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
// What stands around a secret where it is copied from: a header, a line of a shell, of JSON or of a URL.
const AROUND = /[\s"'`=:,;&?<>()]+/;
// A secret that was made elsewhere: long, with letters and digits.
const FOREIGN = /^(?=.*\d)(?=.*[a-z])[!-~]{24,}$/i;
const MOST = 128;

/** A text, such as an address, with the masked form of each whole secret of the service in it. */
export function masked(text: string): string {
  return text.replace(own, '$1****$2');
}

/** What is looked for by a text. Of one with a whole secret in it, that one's masked form: the secret leaves the field for nowhere. */
export function searchable(text: string): string {
  const [secret] = text.match(own) ?? [];
  if (secret !== undefined) return masked(secret);
  const isForeign = (word: string) => FOREIGN.test(word) && !id.test(word) && !uuid.test(word);
  const foreign = text.split(AROUND).find(isForeign);
  return foreign === undefined ? text.slice(0, MOST) : `${foreign.slice(0, 4)}****${foreign.slice(-4)}`;
}
