import { addressListName, packStoredList } from '../../../../shared/stores/address-lists.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { tombstone } from '../../../../shared/stores/records.ts';
import { packAddressList } from '../../../../shared/values/address-list.ts';
import { SECRET_TOMBSTONE_SECONDS, type Entry, type Selection } from '../change.ts';

type Owner = Pick<Entry, 'kind' | 'id' | 'shard'> & { version: number; addresses: readonly string[] };

/** What a record says of its owner's list, and the list as an entry. */
export type OwnList = { name: string; entry: Entry };

/** Packs the list of addresses of a key or a workspace; an empty one has no name, and its entry is a tombstone. */
export function ownList({ kind, id, shard, version, addresses }: Owner): OwnList {
  const entry = { kind, id, shard, key: keyspace.addressList(shard, id), field: '' };
  if (addresses.length === 0)
    return { name: '', entry: { ...entry, value: tombstone(version), lifetimeSeconds: SECRET_TOMBSTONE_SECONDS } };
  const list = packAddressList(addresses);
  const value = packStoredList(version, list);
  return { name: addressListName(shard, id, list), entry: { ...entry, value, lifetimeSeconds: 0 } };
}

/**
 * Records with the lists of their owners, in the order in which they must be written: a record never names a list that is
 * still to come, nor one that is already gone.
 */
export function* withLists(selection: Selection, lists: readonly OwnList[], records: Entry[]): Generator<Entry[]> {
  const entries = lists.map(({ entry }) => entry);
  const inShard = (entry: Entry) => !('shard' in selection) || entry.shard === selection.shard;
  const kept = entries.filter((entry) => entry.lifetimeSeconds === 0 && inShard(entry));
  if (kept.length > 0) yield kept;
  yield records;
  // A shard that is written whole has no list to forget: it is empty, or was wiped.
  const gone = 'shard' in selection ? [] : entries.filter((entry) => entry.lifetimeSeconds > 0);
  if (gone.length > 0) yield gone;
}
