/** How large the parts of a request may be. */
export interface Limits {
  addressBytes: number;
  headerBytes: number;
  /** How many parameters an address has, or parts a form. */
  fields: number;
  nameBytes: number;
  valueBytes: number;
  /** The text of a statement, without rows to insert. The engine itself holds it. */
  queryBytes: number;
}

/** A request that is refused before the engine sees it, with the error that ClickHouse would give. */
export class RequestError extends Error {
  readonly code: number;
  constructor(code: number, text: string) {
    super(text);
    this.code = code;
  }
}

/** The limits of a server whose operator changed none, from its table of settings. */
export function readLimits(defaultOf: (setting: string) => number): Limits {
  return {
    addressBytes: defaultOf('http_max_uri_size'),
    headerBytes: defaultOf('http_max_request_header_size'),
    fields: defaultOf('http_max_fields'),
    nameBytes: defaultOf('http_max_field_name_size'),
    valueBytes: defaultOf('http_max_field_value_size'),
    queryBytes: defaultOf('max_query_size'),
  };
}

/** Refuses more or longer parameters of an address than a ClickHouse server takes. It counts them as they are sent. */
export function limitAddress(limits: Limits, search: string): void {
  const pairs = search.replace(/^\?/, '').split('&');
  limitFields(
    limits,
    pairs.map((pair) => {
      const [name = '', ...value] = pair.split('=');
      return [name, value.join('=')];
    }),
  );
}

/** Refuses more or longer parts of a form than a ClickHouse server takes. */
export function limitFields({ fields, nameBytes, valueBytes }: Limits, given: [name: string, value: string][]): void {
  for (const [i, [name, value]] of given.entries()) {
    if (i === fields) throw formError('Too many form fields');
    if (Buffer.byteLength(name) > nameBytes) throw formError('Field name too long');
    if (Buffer.byteLength(value) > valueBytes) throw formError('Field value too long');
  }
}

function formError(why: string): RequestError {
  return new RequestError(1000, `Poco::Exception. Code: 1000, e.code() = 0, HTML Form Exception: ${why}`);
}
