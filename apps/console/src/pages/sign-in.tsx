import { useEffect } from 'preact/hooks';
import { signIn, type Session } from '../data/call.ts';
import { Field, Form } from '../parts/form.tsx';

export function SignIn({ onSigned }: { onSigned(session: Session): void }) {
  useEffect(() => void (document.title = 'Sign in · keytally'), []);
  return (
    <main class="narrow">
      <h1>keytally</h1>
      <p>Sign in with an access token of your team. It is sent once; the browser keeps a session for 8 hours.</p>
      <Form submit="Sign in" onSubmit={async (value) => onSigned(await signIn(value('token')))}>
        <Field
          label="Access token"
          name="token"
          type="password"
          required
          autofocus
          hint="It begins with kt_. On one machine, make token prints one."
        />
      </Form>
    </main>
  );
}
