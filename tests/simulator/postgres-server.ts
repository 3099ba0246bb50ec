import { PostgresError, type Query, type Sql, type Transaction } from '../../shared/stores/postgres.ts';
import { connectionLost, type Process, type Request, type Simulation } from './simulation.ts';

/** What becomes of a commit. */
export type CommitFate = 'done' | 'fails before' | 'deadlock' | 'lost after';

type Rows = unknown[] & { statement: { string: string } };
type Statement = {
  handler: (query: Statement) => void;
  resolve: (rows: Rows) => void;
  reject: (error: unknown) => void;
};

export type PostgresServer = Awaited<ReturnType<typeof makePostgresServer>>;

// Of the time of the simulation, in place of that of the machine.
const clockSql = `
  create schema sim;
  create unlogged table sim.clock (ms double precision not null);
  insert into sim.clock values (0);
  create function sim.clock_timestamp() returns timestamptz language sql stable as 'select to_timestamp(ms / 1000) from sim.clock';
  -- The same for all of a transaction.
  create function sim.now() returns timestamptz language plpgsql stable as $now$
  begin
    if coalesce(current_setting('sim.at', true), '') = '' then
      perform set_config('sim.at', ms::text, true) from sim.clock;
    end if;
    return to_timestamp(current_setting('sim.at')::float8 / 1000);
  end $now$;
  -- Those of other seeds, in other databases of the server, are nobody's here: one transaction runs at a time. Each is so far from the
  -- next that some are further than may be given out again.
  create sequence sim.xids increment by 50;
  create function sim.pg_current_xact_id() returns xid8 language plpgsql as $xid$
  begin
    if coalesce(current_setting('sim.xid', true), '') = '' then
      perform set_config('sim.xid', nextval('sim.xids')::text, true);
    end if;
    return current_setting('sim.xid')::xid8;
  end $xid$;
  create function sim.pg_snapshot_xmax(pg_snapshot) returns xid8 language sql as 'select (last_value + 1)::text::xid8 from sim.xids';
  create function sim.pg_snapshot_xmin(pg_snapshot) returns xid8 language sql as 'select sim.pg_snapshot_xmax($1)';
  grant usage on schema sim to public;
  grant select on sim.clock to public;
  grant usage, select on sim.xids to public;
  do $$
  declare one record;
  begin
    execute format('alter database %I set search_path = sim, public, pg_catalog', current_database());
    for one in select p.oid::regprocedure as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
               where n.nspname = 'public' and p.proconfig::text like '%search_path%' loop
      execute format('alter function %s set search_path = sim, public, pg_catalog, pg_temp', one.name);
    end loop;
    for one in select d.adrelid::regclass as of_table, a.attname,
                 regexp_replace(pg_get_expr(d.adbin, d.adrelid), '(clock_timestamp|now|pg_current_xact_id)\\(\\)', 'sim.\\&', 'g') as value
               from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
               join pg_class c on c.oid = d.adrelid join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'public' and pg_get_expr(d.adbin, d.adrelid) ~ '(now|clock_timestamp|pg_current_xact_id)\\(\\)' loop
      execute format('alter table %s alter column %I set default %s', one.of_table, one.attname, one.value);
    end loop;
  end $$`;

/** A Postgres whose life is simulated: statements run on a real one, by the clock of the simulation, one transaction at a time. */
export async function makePostgresServer(admin: Sql) {
  await admin.unsafe(clockSql);
  let simulation: Simulation;
  let setAt = NaN;
  let transactions = 0;
  let commitFate: () => CommitFate = () => 'done';

  async function tick(): Promise<void> {
    if (setAt === simulation.nowMs()) return;
    setAt = simulation.nowMs();
    await admin`update sim.clock set ms = ${setAt}`;
  }

  return {
    /** Keeps what is there as the beginning of each simulation. */
    async keepBeginning(): Promise<void> {
      await admin.unsafe(
        'set client_min_messages = warning; drop schema if exists beginning cascade; create schema beginning',
      );
      const tables = await admin<{ name: string; columns: string }[]>`
        select table_name as name, string_agg(quote_ident(column_name), ',') filter (where is_generated = 'NEVER') as columns
        from information_schema.columns join information_schema.tables using (table_schema, table_name)
        where table_schema = 'public' and table_type = 'BASE TABLE' and table_name <> 'schema_migrations' group by 1 order by 1`;
      const sequences = await admin<{ name: string; last: number | null }[]>`
        select schemaname || '.' || sequencename as name, last_value as last from pg_sequences where schemaname in ('public', 'sim')`;
      const inserts: string[] = [];
      for (const { name, columns } of tables) {
        const { count } = await admin.unsafe(`create table beginning.${name} as table public.${name}`);
        if (count > 0)
          inserts.push(
            `insert into public.${name} (${columns}) overriding system value select ${columns} from beginning.${name}`,
          );
      }
      // A function keeps the plans of its statements. Few rows are deleted far faster than a file is made anew.
      const statements = [
        ...tables.map(({ name }) => `delete from public.${name}`),
        ...sequences.map(({ name, last }) => `perform setval('${name}', ${last ?? 1}, ${last !== null})`),
        ...inserts,
      ];
      await admin.unsafe(
        `create or replace function sim.begin() returns void language plpgsql as $$ begin ${statements.join(';\n')}; end $$`,
      );
    },
    async begin(next: Simulation): Promise<void> {
      simulation = next;
      transactions = 0;
      setAt = NaN;
      await admin.unsafe(
        'set session_replication_role = replica; select sim.begin(); set session_replication_role = origin',
      );
      await tick();
    },
    tick,
    admin,
    setCommitFates: (next: () => CommitFate) => void (commitFate = next),
    /** What a process has of it, on a pool with the rights of its role. */
    connect: (process: Process, pool: Sql) => simulated(pool, process),
  };

  function simulated(pool: Sql, process: Process): Sql {
    let statements = 0;
    const tagged = tag(pool, (label, execute) =>
      process.ask({ server: 'postgres', lane: `${process.name} ${(statements += 1)}`, label, execute }),
    );
    return Object.assign(tagged, { begin: (...args: unknown[]) => begin(pool, process, args), end: async () => {} });
  }

  /** Statements run when `ask` says so. */
  function tag<Of extends Query>(sql: Of, ask: <T>(label: string, execute: () => Promise<T>) => Promise<T>): Of {
    const tagged = (first: TemplateStringsArray, ...rest: never[]) => {
      const made = sql(first, ...rest) as unknown as Statement;
      if (!Array.isArray(first.raw)) return made;
      const run = made.handler;
      made.handler = (query) => {
        const { resolve, reject } = query;
        const execute = () =>
          new Promise<Rows>((done, failed) => {
            [query.resolve, query.reject] = [done, failed];
            run(query);
          }).then((rows) => simulation.inSomeOrder(rows.statement.string, rows, (row) => JSON.stringify(row)));
        ask(labelOf(first), execute).then(resolve, reject);
      };
      return made;
    };
    return Object.assign(tagged as unknown as Of, sql);
  }

  /** Holds Postgres for itself until it has ended: a statement that waited for its locks would wait for ever. */
  async function begin(pool: Sql, process: Process, args: unknown[]): Promise<unknown> {
    const work = args.pop() as (tx: Transaction) => Promise<unknown>;
    // Nobody sees where in a transaction that only reads its process died, or others came between.
    if (args.includes('read only')) {
      const reading = (tx: Transaction) => work(tag(tx, (_, execute) => execute()));
      const execute = () => (pool.begin as (...args: unknown[]) => Promise<unknown>)(...args, reading);
      return process.ask({ server: 'postgres', lane: `reading ${(transactions += 1)}`, label: 'a read', execute });
    }
    const lane = { name: `transaction ${(transactions += 1)}`, broken: false };
    const open = (inside: Inside) => {
      simulation.hold('postgres', lane.name);
      return (pool.begin as (...args: unknown[]) => Promise<unknown>)(...args, inside);
    };
    let fate: CommitFate = 'done';
    const result = await scope({ process, lane, open, work, isTransaction: true, fateOf: () => (fate = commitFate()) });
    if ((fate as CommitFate) === 'lost after') throw connectionLost();
    return result;
  }

  function wrap(tx: Transaction, process: Process, lane: Lane): Transaction {
    const ask = async <T>(label: string, execute: () => Promise<T>) => {
      const sent = () => (lane.broken ? Promise.reject<T>(connectionLost()) : execute());
      try {
        return await process.ask({ server: 'postgres', lane: lane.name, label, execute: sent });
      } catch (error) {
        lane.broken ||= (error as { code?: string }).code === 'CONNECTION_CLOSED';
        throw error;
      }
    };
    return Object.assign(tag(tx, ask), {
      savepoint: (work: (inner: Transaction) => Promise<unknown>) =>
        scope({ process, lane, open: (inside) => tx.savepoint(inside as never), work, fateOf: () => 'done' }),
    });
  }

  /** A transaction, or a part of one: its statements, its beginning and its end are requests of the simulation. */
  async function scope({ process, lane, open, work, isTransaction = false, fateOf }: Scope): Promise<unknown> {
    const begun = Promise.withResolvers<void>();
    const worked = Promise.withResolvers<void>();
    const mayEnd = Promise.withResolvers<void>();
    let [asked, ended] = [false, false];
    let failure: unknown;
    let done: Promise<unknown> = Promise.resolve();
    const end = async () => {
      ended = true;
      mayEnd.resolve();
      await done.catch(() => {});
      if (isTransaction) simulation.release('postgres');
    };
    const inside: Inside = async (tx) => {
      // Whatever of its statements first asks for the time, planning one included.
      if (isTransaction) await tx`select sim.now()`;
      begun.resolve();
      let result: unknown;
      try {
        result = await Promise.race([work(wrap(tx, process, lane)), process.died]);
      } catch (error) {
        failure = error;
      }
      worked.resolve();
      await mayEnd.promise;
      if (failure !== undefined) throw failure;
      return result;
    };
    await process.ask(
      sure('begin', lane.name, async () => {
        done = open(inside);
        done.catch(() => begun.resolve());
        if (isTransaction)
          process.onDeath(async () => {
            if (ended) return;
            // Its commit may have been on its way.
            if (!asked || simulation.random.chance(0.5)) failure ??= connectionLost();
            await end();
          });
        await begun.promise;
      }),
    );
    await worked.promise;
    asked = failure === undefined;
    await process.ask(
      sure(asked ? 'commit' : 'rollback', lane.name, async () => {
        const fate = asked ? fateOf() : 'done';
        if (fate === 'fails before') failure = connectionLost();
        if (fate === 'deadlock') failure = new PostgresError({ code: '40P01', message: 'deadlock detected' } as never);
        await end();
      }),
    );
    return done;
  }
}

type Lane = { name: string; broken: boolean };
type Inside = (tx: Transaction) => Promise<unknown>;
type Scope = {
  process: Process;
  lane: Lane;
  open(inside: Inside): Promise<unknown>;
  work(tx: Transaction): Promise<unknown>;
  isTransaction?: boolean;
  fateOf(): CommitFate;
};

function sure<T>(label: string, lane: string, execute: () => Promise<T>): Request<T> {
  return { server: 'postgres', label, lane, execute, sure: true };
}

const labels = new WeakMap<TemplateStringsArray, string>();

function labelOf(text: TemplateStringsArray): string {
  const label = labels.get(text) ?? text.join('…').replace(/\s+/g, ' ').trim().slice(0, 60);
  labels.set(text, label);
  return label;
}
