/** An error that ClickHouse would give, without the engine or in its place. */
export class Refusal extends Error {
  readonly code: number;
  constructor(code: number, type: string, message: string) {
    super(`Code: ${code}. DB::Exception: ${message} (${type})`);
    this.code = code;
  }
}
