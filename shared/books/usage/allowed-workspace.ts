declare const allowed: unique symbol;

/** The id of a workspace that whoever asks was allowed. Nobody reads usage of any other. */
export type AllowedWorkspace = string & { readonly [allowed]: true };

/**
 * Says that a workspace was allowed. The linter lets only two kinds of code say it: the api's check of what an access token may
 * use, and jobs that work for every workspace.
 */
export function allowWorkspace(id: string): AllowedWorkspace {
  return id as AllowedWorkspace;
}
