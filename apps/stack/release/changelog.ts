import { StackError } from '../process/errors.ts';

/** What the changelog says about a version that is not released yet. */
export function notesOf(changelog: string, version: string): string {
  const [, state, notes = ''] = section(changelog, version);
  if (state !== 'unreleased') throw new StackError(`CHANGELOG.md says that ${version} was released on ${state}`);
  if (notes.trim() === '') throw new StackError(`CHANGELOG.md says nothing about ${version}`);
  return notes.trim();
}

/** The changelog with the day on which a version is released. */
export function released(changelog: string, version: string, day: string): string {
  const [heading = ''] = section(changelog, version)[0].split('\n');
  return changelog.replace(heading, `## [${version}] - ${day}`);
}

function section(changelog: string, version: string): RegExpExecArray {
  const pattern = new RegExp(`^## \\[${RegExp.escape(version)}\\] - (\\S+)\n([^]*?)(?=^## \\[|(?![^]))`, 'm');
  const found = pattern.exec(changelog);
  if (!found) throw new StackError(`CHANGELOG.md has no section \`## [${version}] - unreleased\``);
  return found;
}
