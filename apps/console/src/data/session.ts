import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Permission } from '../../../../shared/contract/caller.ts';
import type { Output, Session } from './call.ts';

export type Workspace = Output<'get /api/v1/workspace/{id}'>['workspace'];

type Signed = { session: Session; onEnded(): void };

export const SessionContext = createContext<Signed | undefined>(undefined);
/** Says that the session has ended, wherever somebody notices. */
export const EndedContext = createContext<() => void>(() => {});
export const WorkspaceContext = createContext<Workspace | undefined>(undefined);

/** Whether the session's token may do something; what it may not is not offered. */
export function useMay(): (permission: Permission) => boolean {
  const { session } = useSession();
  return (permission) => session.permissions.includes(permission);
}

/** Whether the session's token is for all workspaces: one for some of them does nothing that is the team's. */
export function useIsOfTeam(): boolean {
  return useSession().session.workspaceIds === undefined;
}

export function useSession(): Signed {
  return useContext(SessionContext)!;
}

export function useEnded(): () => void {
  return useContext(EndedContext);
}

/** The workspace that was chosen. */
export function useWorkspace(): Workspace {
  return useContext(WorkspaceContext)!;
}
