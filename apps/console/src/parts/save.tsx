import { download } from '../data/call.ts';
import { Form } from './form.tsx';

/** A button that reads something from the api and gives it to the viewer as a file. */
export function SaveButton({ path, file, text }: { path: string; file: string; text: string }) {
  const save = async () => {
    const href = URL.createObjectURL(await download(path));
    Object.assign(document.createElement('a'), { href, download: file }).click();
    URL.revokeObjectURL(href);
  };
  return <Form submit={text} look="minor" onSubmit={save} />;
}
