import { readdirSync, readlinkSync } from 'node:fs';

/** How many files of answers a process of the native ClickHouse has open. */
export function openAnswers(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).includes('/answers/answer-');
    } catch {
      return false;
    }
  }).length;
}
