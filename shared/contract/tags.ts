/** The groups of operations, with what they are about. */
export const tags = {
  'API keys': 'Keys of your customers: made, verified, rotated and ended.',
  Workspaces: 'A workspace holds keys, scopes and billing records.',
  Scopes: 'What keys of a workspace can be granted.',
  'Customer billing': 'Credits of your customers: bought, used, corrected and proved.',
  Usage: 'What was used, by day and name.',
  JWT: 'JWTs that your team signs, and the keys that prove them.',
  'Link tokens': 'Links for your customers that end by themselves.',
  Portal: 'What a customer sees who has opened such a link: their own keys, usage and balance.',
  'Access tokens': 'Who may call the API, and for what.',
  'Audit log': 'Who changed what, and who was denied.',
  Webhooks: 'What happens, told to your own servers.',
  Quota: 'What your team may store, and how often it may ask.',
  Gateways: 'Check requests of gateways in front of your API.',
  Probes: 'Whether a process works, for whoever runs it.',
} as const;

export type Tag = keyof typeof tags;
