# A receiver of webhooks (docs/webhooks.md), behind a proxy with TLS: pip install standardwebhooks. WEBHOOK_SECRET, PORT.
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
# In production a table with a unique column, written in the transaction of what you do about the event.
seen = set()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)
            return
        event_id = self.headers["webhook-id"]
        if event_id not in seen:
            seen.add(event_id)
            print(event_id, event["type"], json.dumps(event["data"]), flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
