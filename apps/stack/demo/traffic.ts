/** A customer of the demo's workspace, with a billing record. */
export type Customer = {
  name: string;
  workspaceId: string;
  externalMeterId: string;
  billingId: string;
  /** What each call is counted as, and costs. */
  usageName: string;
  cost: string;
};

/** One kind of call among the traffic. */
export type Traffic = { weight: number; customer: Customer; key: string; representation: string; unknown?: boolean };

/** One call and how it was answered. */
export type Seen = { traffic: Traffic; status: string; ms: number };
