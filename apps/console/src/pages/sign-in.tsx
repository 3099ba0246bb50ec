import { useEffect } from 'preact/hooks';
import { signIn, type Session } from '../data/call.ts';
import { Form } from '../parts/form.tsx';

const hint = 'It begins with kt_. On one machine, make token prints one.';

export function SignIn({ onSigned }: { onSigned(session: Session): void }) {
  useEffect(() => void (document.title = 'Sign in · keytally'), []);
  return (
    <main class="narrow">
      <h1>keytally</h1>
      <p>Sign in with an access token of your team. It is sent once; the browser keeps a session for 8 hours.</p>
      <Form
        submit="Sign in"
        fields={[{ name: 'token', label: 'Access token', as: 'password', required: true, autofocus: true, hint }]}
        onSubmit={async ({ token }) => onSigned(await signIn(token))}
      />
    </main>
  );
}
