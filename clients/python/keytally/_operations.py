# Made by `npm run client` from the OpenAPI document; changes here are lost.
from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from typing_extensions import Unpack

from keytally import types
from keytally._options import CallOptions

Input = Mapping[str, Any] | None
Call = Callable[[str, Input, CallOptions], object]
AsyncCall = Callable[[str, Input, CallOptions], Awaitable[object]]


class ApiKeys:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateKeyInput, **options: Unpack[CallOptions]) -> types.CreateKeyResult:
        """Create an API key; only this answer contains the secret (`key:write`)."""
        return cast("types.CreateKeyResult", self._call("post /api/v1/api-key", input, options))

    def import_(self, input: types.ImportKeysInput, **options: Unpack[CallOptions]) -> types.ImportKeysResult:
        """Import API keys that were made elsewhere, up to 100; each item stands alone (`key:write`)."""
        return cast("types.ImportKeysResult", self._call("post /api/v1/api-key/import", input, options))

    def list(self, input: types.ListKeysInput, **options: Unpack[CallOptions]) -> types.ListKeysResult:
        """List the API keys of a workspace, also deleted ones unless filtered out (`key:read`)."""
        return cast("types.ListKeysResult", self._call("get /api/v1/workspace/{id}/api-keys", input, options))

    def get(self, input: types.GetKeyInput, **options: Unpack[CallOptions]) -> types.GetKeyResult:
        """Get an API key, without its secret (`key:read`)."""
        return cast("types.GetKeyResult", self._call("get /api/v1/workspace/{id}/api-key/{akid}", input, options))

    def update(self, input: types.UpdateKeyInput, **options: Unpack[CallOptions]) -> types.UpdateKeyResult:
        """Change an API key; null clears a setting (`key:write`)."""
        return cast("types.UpdateKeyResult", self._call("patch /api/v1/workspace/{id}/api-key/{akid}", input, options))

    def rotate(self, input: types.RotateKeyInput, **options: Unpack[CallOptions]) -> types.RotateKeyResult:
        """Give an API key a new secret; only this answer contains it (`key:write`)."""
        return cast("types.RotateKeyResult", self._call("post /api/v1/workspace/{id}/api-key/{akid}/rotate", input, options))

    def delete(self, input: types.DeleteKeyInput, **options: Unpack[CallOptions]) -> types.DeleteKeyResult:
        """Delete an API key for good; its record stays readable (`key:write`)."""
        return cast("types.DeleteKeyResult", self._call("delete /api/v1/workspace/{id}/api-key/{akid}", input, options))

    def leaked(self, input: types.ReportLeakedSecretsInput, **options: Unpack[CallOptions]) -> types.ReportLeakedSecretsResult:
        """Report secrets that leaked: keys in the text are disabled, tokens revoked (`key:write`)."""
        return cast("types.ReportLeakedSecretsResult", self._call("post /api/v1/api-key/leaked", input, options))


class AsyncApiKeys:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateKeyInput, **options: Unpack[CallOptions]) -> types.CreateKeyResult:
        """Create an API key; only this answer contains the secret (`key:write`)."""
        return cast("types.CreateKeyResult", await self._call("post /api/v1/api-key", input, options))

    async def import_(self, input: types.ImportKeysInput, **options: Unpack[CallOptions]) -> types.ImportKeysResult:
        """Import API keys that were made elsewhere, up to 100; each item stands alone (`key:write`)."""
        return cast("types.ImportKeysResult", await self._call("post /api/v1/api-key/import", input, options))

    async def list(self, input: types.ListKeysInput, **options: Unpack[CallOptions]) -> types.ListKeysResult:
        """List the API keys of a workspace, also deleted ones unless filtered out (`key:read`)."""
        return cast("types.ListKeysResult", await self._call("get /api/v1/workspace/{id}/api-keys", input, options))

    async def get(self, input: types.GetKeyInput, **options: Unpack[CallOptions]) -> types.GetKeyResult:
        """Get an API key, without its secret (`key:read`)."""
        return cast("types.GetKeyResult", await self._call("get /api/v1/workspace/{id}/api-key/{akid}", input, options))

    async def update(self, input: types.UpdateKeyInput, **options: Unpack[CallOptions]) -> types.UpdateKeyResult:
        """Change an API key; null clears a setting (`key:write`)."""
        return cast("types.UpdateKeyResult", await self._call("patch /api/v1/workspace/{id}/api-key/{akid}", input, options))

    async def rotate(self, input: types.RotateKeyInput, **options: Unpack[CallOptions]) -> types.RotateKeyResult:
        """Give an API key a new secret; only this answer contains it (`key:write`)."""
        return cast("types.RotateKeyResult", await self._call("post /api/v1/workspace/{id}/api-key/{akid}/rotate", input, options))

    async def delete(self, input: types.DeleteKeyInput, **options: Unpack[CallOptions]) -> types.DeleteKeyResult:
        """Delete an API key for good; its record stays readable (`key:write`)."""
        return cast("types.DeleteKeyResult", await self._call("delete /api/v1/workspace/{id}/api-key/{akid}", input, options))

    async def leaked(self, input: types.ReportLeakedSecretsInput, **options: Unpack[CallOptions]) -> types.ReportLeakedSecretsResult:
        """Report secrets that leaked: keys in the text are disabled, tokens revoked (`key:write`)."""
        return cast("types.ReportLeakedSecretsResult", await self._call("post /api/v1/api-key/leaked", input, options))


class Workspaces:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateWorkspaceInput, **options: Unpack[CallOptions]) -> types.CreateWorkspaceResult:
        """Create a workspace (`workspace:write`)."""
        return cast("types.CreateWorkspaceResult", self._call("post /api/v1/workspace", input, options))

    def list(self, input: types.ListWorkspacesInput | None = None, **options: Unpack[CallOptions]) -> types.ListWorkspacesResult:
        """List the workspaces that the access token may use (`workspace:read`)."""
        return cast("types.ListWorkspacesResult", self._call("get /api/v1/workspace", input, options))

    def get(self, input: types.GetWorkspaceInput, **options: Unpack[CallOptions]) -> types.GetWorkspaceResult:
        """Get a workspace (`workspace:read`)."""
        return cast("types.GetWorkspaceResult", self._call("get /api/v1/workspace/{id}", input, options))

    def update(self, input: types.UpdateWorkspaceInput, **options: Unpack[CallOptions]) -> types.UpdateWorkspaceResult:
        """Change a workspace's name and the defaults of its keys and billing records (`workspace:write`)."""
        return cast("types.UpdateWorkspaceResult", self._call("patch /api/v1/workspace/{id}", input, options))

    def delete(self, input: types.DeleteWorkspaceInput, **options: Unpack[CallOptions]) -> types.DeleteWorkspaceResult:
        """Delete a workspace for good: its keys are refused at once, its books stay readable (`workspace:write`)."""
        return cast("types.DeleteWorkspaceResult", self._call("delete /api/v1/workspace/{id}", input, options))

    def proof(self, input: types.GetWorkspaceProofInput, **options: Unpack[CallOptions]) -> types.GetWorkspaceProofResult:
        """Tell when a workspace's books were proved, and which records differ (`billing:read`)."""
        return cast("types.GetWorkspaceProofResult", self._call("get /api/v1/workspace/{id}/proof", input, options))

    def close_month(self, input: types.CloseMonthInput, **options: Unpack[CallOptions]) -> types.CloseMonthResult:
        """Close a month of a workspace: its statements never change any more (`billing:write`)."""
        return cast("types.CloseMonthResult", self._call("post /api/v1/workspace/{id}/close", input, options))


class AsyncWorkspaces:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateWorkspaceInput, **options: Unpack[CallOptions]) -> types.CreateWorkspaceResult:
        """Create a workspace (`workspace:write`)."""
        return cast("types.CreateWorkspaceResult", await self._call("post /api/v1/workspace", input, options))

    async def list(self, input: types.ListWorkspacesInput | None = None, **options: Unpack[CallOptions]) -> types.ListWorkspacesResult:
        """List the workspaces that the access token may use (`workspace:read`)."""
        return cast("types.ListWorkspacesResult", await self._call("get /api/v1/workspace", input, options))

    async def get(self, input: types.GetWorkspaceInput, **options: Unpack[CallOptions]) -> types.GetWorkspaceResult:
        """Get a workspace (`workspace:read`)."""
        return cast("types.GetWorkspaceResult", await self._call("get /api/v1/workspace/{id}", input, options))

    async def update(self, input: types.UpdateWorkspaceInput, **options: Unpack[CallOptions]) -> types.UpdateWorkspaceResult:
        """Change a workspace's name and the defaults of its keys and billing records (`workspace:write`)."""
        return cast("types.UpdateWorkspaceResult", await self._call("patch /api/v1/workspace/{id}", input, options))

    async def delete(self, input: types.DeleteWorkspaceInput, **options: Unpack[CallOptions]) -> types.DeleteWorkspaceResult:
        """Delete a workspace for good: its keys are refused at once, its books stay readable (`workspace:write`)."""
        return cast("types.DeleteWorkspaceResult", await self._call("delete /api/v1/workspace/{id}", input, options))

    async def proof(self, input: types.GetWorkspaceProofInput, **options: Unpack[CallOptions]) -> types.GetWorkspaceProofResult:
        """Tell when a workspace's books were proved, and which records differ (`billing:read`)."""
        return cast("types.GetWorkspaceProofResult", await self._call("get /api/v1/workspace/{id}/proof", input, options))

    async def close_month(self, input: types.CloseMonthInput, **options: Unpack[CallOptions]) -> types.CloseMonthResult:
        """Close a month of a workspace: its statements never change any more (`billing:write`)."""
        return cast("types.CloseMonthResult", await self._call("post /api/v1/workspace/{id}/close", input, options))


class Scopes:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateScopeInput, **options: Unpack[CallOptions]) -> types.CreateScopeResult:
        """Create a scope in a workspace (`workspace:write`)."""
        return cast("types.CreateScopeResult", self._call("post /api/v1/workspace/{id}/scope", input, options))

    def list(self, input: types.ListScopesInput, **options: Unpack[CallOptions]) -> types.ListScopesResult:
        """List all scopes of a workspace (`workspace:read`)."""
        return cast("types.ListScopesResult", self._call("get /api/v1/workspace/{id}/scopes", input, options))

    def get(self, input: types.GetScopeInput, **options: Unpack[CallOptions]) -> types.GetScopeResult:
        """Get a scope (`workspace:read`)."""
        return cast("types.GetScopeResult", self._call("get /api/v1/workspace/{id}/scope/{sid}", input, options))

    def update(self, input: types.UpdateScopeInput, **options: Unpack[CallOptions]) -> types.UpdateScopeResult:
        """Change a scope; its representation only while no key has it (`workspace:write`)."""
        return cast("types.UpdateScopeResult", self._call("patch /api/v1/workspace/{id}/scope/{sid}", input, options))

    def delete(self, input: types.DeleteScopeInput, **options: Unpack[CallOptions]) -> types.DeleteScopeResult:
        """Delete a scope, and with it every grant of it (`workspace:write`)."""
        return cast("types.DeleteScopeResult", self._call("delete /api/v1/workspace/{id}/scope/{sid}", input, options))


class AsyncScopes:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateScopeInput, **options: Unpack[CallOptions]) -> types.CreateScopeResult:
        """Create a scope in a workspace (`workspace:write`)."""
        return cast("types.CreateScopeResult", await self._call("post /api/v1/workspace/{id}/scope", input, options))

    async def list(self, input: types.ListScopesInput, **options: Unpack[CallOptions]) -> types.ListScopesResult:
        """List all scopes of a workspace (`workspace:read`)."""
        return cast("types.ListScopesResult", await self._call("get /api/v1/workspace/{id}/scopes", input, options))

    async def get(self, input: types.GetScopeInput, **options: Unpack[CallOptions]) -> types.GetScopeResult:
        """Get a scope (`workspace:read`)."""
        return cast("types.GetScopeResult", await self._call("get /api/v1/workspace/{id}/scope/{sid}", input, options))

    async def update(self, input: types.UpdateScopeInput, **options: Unpack[CallOptions]) -> types.UpdateScopeResult:
        """Change a scope; its representation only while no key has it (`workspace:write`)."""
        return cast("types.UpdateScopeResult", await self._call("patch /api/v1/workspace/{id}/scope/{sid}", input, options))

    async def delete(self, input: types.DeleteScopeInput, **options: Unpack[CallOptions]) -> types.DeleteScopeResult:
        """Delete a scope, and with it every grant of it (`workspace:write`)."""
        return cast("types.DeleteScopeResult", await self._call("delete /api/v1/workspace/{id}/scope/{sid}", input, options))


class Billing:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateBillingInput, **options: Unpack[CallOptions]) -> types.CreateBillingResult:
        """Create the billing record of a workspace's external meter (`billing:write`)."""
        return cast("types.CreateBillingResult", self._call("post /api/v1/customer-billing", input, options))

    def list(self, input: types.ListBillingsInput, **options: Unpack[CallOptions]) -> types.ListBillingsResult:
        """List the billing records of a workspace (`billing:read`)."""
        return cast("types.ListBillingsResult", self._call("get /api/v1/workspace/{id}/customer-billings", input, options))

    def get(self, input: types.GetBillingOfMeterInput, **options: Unpack[CallOptions]) -> types.GetBillingOfMeterResult:
        """Get the billing record of a workspace's external meter (`billing:read`)."""
        return cast("types.GetBillingOfMeterResult", self._call("get /api/v1/customer-billing", input, options))

    def get_by_id(self, input: types.GetBillingInput, **options: Unpack[CallOptions]) -> types.GetBillingResult:
        """Get a billing record by its id (`billing:read`)."""
        return cast("types.GetBillingResult", self._call("get /api/v1/customer-billing/{bid}", input, options))

    def refill(self, input: types.RefillBillingInput, **options: Unpack[CallOptions]) -> types.RefillBillingResult:
        """Add credits to a billing record (`billing:write`)."""
        return cast("types.RefillBillingResult", self._call("post /api/v1/customer-billing/refill", input, options))

    def update(self, input: types.UpdateBillingInput, **options: Unpack[CallOptions]) -> types.UpdateBillingResult:
        """Change whether a billing record allows overages, its spend cap, its limits and its alerts (`billing:write`)."""
        return cast("types.UpdateBillingResult", self._call("patch /api/v1/customer-billing/{bid}", input, options))

    def ledger(self, input: types.ListLedgerInput, **options: Unpack[CallOptions]) -> types.ListLedgerResult:
        """List the refills of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListLedgerResult", self._call("get /api/v1/customer-billing/{bid}/ledger", input, options))

    def alerts(self, input: types.ListAlertsInput, **options: Unpack[CallOptions]) -> types.ListAlertsResult:
        """List the alerts that a billing record has crossed, newest first (`billing:read`)."""
        return cast("types.ListAlertsResult", self._call("get /api/v1/customer-billing/{bid}/alerts", input, options))

    def adjust(self, input: types.AdjustBillingInput, **options: Unpack[CallOptions]) -> types.AdjustBillingResult:
        """Correct the used credits of a billing record, in its balance and in its books (`billing:write`)."""
        return cast("types.AdjustBillingResult", self._call("post /api/v1/customer-billing/{bid}/adjustment", input, options))

    def statement(self, input: types.GetStatementInput, **options: Unpack[CallOptions]) -> types.GetStatementResult:
        """Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`)."""
        return cast("types.GetStatementResult", self._call("get /api/v1/customer-billing/{bid}/statement", input, options))

    def statements(self, input: types.ListStatementsInput, **options: Unpack[CallOptions]) -> types.ListStatementsResult:
        """List the statements of a workspace, one line for each record (`billing:read`, `usage:read`)."""
        return cast("types.ListStatementsResult", self._call("get /api/v1/statements", input, options))

    def statements_csv(self, input: types.ListStatementsInput, **options: Unpack[CallOptions]) -> str:
        """List the statements of a workspace, one line for each record (`billing:read`, `usage:read`)."""
        return cast("str", self._call("get /api/v1/statements as text/csv", input, options))

    def statement_csv(self, input: types.GetStatementInput, **options: Unpack[CallOptions]) -> str:
        """Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`)."""
        return cast("str", self._call("get /api/v1/customer-billing/{bid}/statement as text/csv", input, options))

    def reconciliation(self, input: types.ReconcileBillingInput, **options: Unpack[CallOptions]) -> types.ReconcileBillingResult:
        """Prove the books of a billing record: compare its balance with its events (`billing:read`)."""
        return cast("types.ReconcileBillingResult", self._call("get /api/v1/customer-billing/{bid}/reconciliation", input, options))


class AsyncBilling:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateBillingInput, **options: Unpack[CallOptions]) -> types.CreateBillingResult:
        """Create the billing record of a workspace's external meter (`billing:write`)."""
        return cast("types.CreateBillingResult", await self._call("post /api/v1/customer-billing", input, options))

    async def list(self, input: types.ListBillingsInput, **options: Unpack[CallOptions]) -> types.ListBillingsResult:
        """List the billing records of a workspace (`billing:read`)."""
        return cast("types.ListBillingsResult", await self._call("get /api/v1/workspace/{id}/customer-billings", input, options))

    async def get(self, input: types.GetBillingOfMeterInput, **options: Unpack[CallOptions]) -> types.GetBillingOfMeterResult:
        """Get the billing record of a workspace's external meter (`billing:read`)."""
        return cast("types.GetBillingOfMeterResult", await self._call("get /api/v1/customer-billing", input, options))

    async def get_by_id(self, input: types.GetBillingInput, **options: Unpack[CallOptions]) -> types.GetBillingResult:
        """Get a billing record by its id (`billing:read`)."""
        return cast("types.GetBillingResult", await self._call("get /api/v1/customer-billing/{bid}", input, options))

    async def refill(self, input: types.RefillBillingInput, **options: Unpack[CallOptions]) -> types.RefillBillingResult:
        """Add credits to a billing record (`billing:write`)."""
        return cast("types.RefillBillingResult", await self._call("post /api/v1/customer-billing/refill", input, options))

    async def update(self, input: types.UpdateBillingInput, **options: Unpack[CallOptions]) -> types.UpdateBillingResult:
        """Change whether a billing record allows overages, its spend cap, its limits and its alerts (`billing:write`)."""
        return cast("types.UpdateBillingResult", await self._call("patch /api/v1/customer-billing/{bid}", input, options))

    async def ledger(self, input: types.ListLedgerInput, **options: Unpack[CallOptions]) -> types.ListLedgerResult:
        """List the refills of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListLedgerResult", await self._call("get /api/v1/customer-billing/{bid}/ledger", input, options))

    async def alerts(self, input: types.ListAlertsInput, **options: Unpack[CallOptions]) -> types.ListAlertsResult:
        """List the alerts that a billing record has crossed, newest first (`billing:read`)."""
        return cast("types.ListAlertsResult", await self._call("get /api/v1/customer-billing/{bid}/alerts", input, options))

    async def adjust(self, input: types.AdjustBillingInput, **options: Unpack[CallOptions]) -> types.AdjustBillingResult:
        """Correct the used credits of a billing record, in its balance and in its books (`billing:write`)."""
        return cast("types.AdjustBillingResult", await self._call("post /api/v1/customer-billing/{bid}/adjustment", input, options))

    async def statement(self, input: types.GetStatementInput, **options: Unpack[CallOptions]) -> types.GetStatementResult:
        """Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`)."""
        return cast("types.GetStatementResult", await self._call("get /api/v1/customer-billing/{bid}/statement", input, options))

    async def statements(self, input: types.ListStatementsInput, **options: Unpack[CallOptions]) -> types.ListStatementsResult:
        """List the statements of a workspace, one line for each record (`billing:read`, `usage:read`)."""
        return cast("types.ListStatementsResult", await self._call("get /api/v1/statements", input, options))

    async def statements_csv(self, input: types.ListStatementsInput, **options: Unpack[CallOptions]) -> str:
        """List the statements of a workspace, one line for each record (`billing:read`, `usage:read`)."""
        return cast("str", await self._call("get /api/v1/statements as text/csv", input, options))

    async def statement_csv(self, input: types.GetStatementInput, **options: Unpack[CallOptions]) -> str:
        """Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`)."""
        return cast("str", await self._call("get /api/v1/customer-billing/{bid}/statement as text/csv", input, options))

    async def reconciliation(self, input: types.ReconcileBillingInput, **options: Unpack[CallOptions]) -> types.ReconcileBillingResult:
        """Prove the books of a billing record: compare its balance with its events (`billing:read`)."""
        return cast("types.ReconcileBillingResult", await self._call("get /api/v1/customer-billing/{bid}/reconciliation", input, options))


class Grants:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateGrantInput, **options: Unpack[CallOptions]) -> types.CreateGrantResult:
        """Grant credits to a billing record, with a beginning, an end and a priority (`billing:write`)."""
        return cast("types.CreateGrantResult", self._call("post /api/v1/customer-billing/{bid}/grant", input, options))

    def list(self, input: types.ListGrantsInput, **options: Unpack[CallOptions]) -> types.ListGrantsResult:
        """List the grants of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListGrantsResult", self._call("get /api/v1/customer-billing/{bid}/grants", input, options))

    def get(self, input: types.GetGrantInput, **options: Unpack[CallOptions]) -> types.GetGrantResult:
        """Get a grant, with what of it was used, has expired and remains (`billing:read`)."""
        return cast("types.GetGrantResult", self._call("get /api/v1/customer-billing/{bid}/grant/{gid}", input, options))

    def void(self, input: types.VoidGrantInput, **options: Unpack[CallOptions]) -> types.VoidGrantResult:
        """Void a grant: what is left of it is gone at once (`billing:write`)."""
        return cast("types.VoidGrantResult", self._call("post /api/v1/customer-billing/{bid}/grant/{gid}/void", input, options))


class AsyncGrants:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateGrantInput, **options: Unpack[CallOptions]) -> types.CreateGrantResult:
        """Grant credits to a billing record, with a beginning, an end and a priority (`billing:write`)."""
        return cast("types.CreateGrantResult", await self._call("post /api/v1/customer-billing/{bid}/grant", input, options))

    async def list(self, input: types.ListGrantsInput, **options: Unpack[CallOptions]) -> types.ListGrantsResult:
        """List the grants of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListGrantsResult", await self._call("get /api/v1/customer-billing/{bid}/grants", input, options))

    async def get(self, input: types.GetGrantInput, **options: Unpack[CallOptions]) -> types.GetGrantResult:
        """Get a grant, with what of it was used, has expired and remains (`billing:read`)."""
        return cast("types.GetGrantResult", await self._call("get /api/v1/customer-billing/{bid}/grant/{gid}", input, options))

    async def void(self, input: types.VoidGrantInput, **options: Unpack[CallOptions]) -> types.VoidGrantResult:
        """Void a grant: what is left of it is gone at once (`billing:write`)."""
        return cast("types.VoidGrantResult", await self._call("post /api/v1/customer-billing/{bid}/grant/{gid}/void", input, options))


class Holds:
    def __init__(self, call: Call) -> None:
        self._call = call

    def capture(self, input: types.CaptureHoldInput, **options: Unpack[CallOptions]) -> types.CaptureHoldResult:
        """Capture a hold: debit what the call did cost, and release the rest (`key:verify`)."""
        return cast("types.CaptureHoldResult", self._call("post /api/v1/usage/capture", input, options))

    def release(self, input: types.ReleaseHoldInput, **options: Unpack[CallOptions]) -> types.ReleaseHoldResult:
        """Release a hold: debit nothing (`key:verify`)."""
        return cast("types.ReleaseHoldResult", self._call("post /api/v1/usage/release", input, options))

    def extend(self, input: types.ExtendHoldInput, **options: Unpack[CallOptions]) -> types.ExtendHoldResult:
        """Extend a hold: give it another end, counted from now (`key:verify`)."""
        return cast("types.ExtendHoldResult", self._call("post /api/v1/usage/extend", input, options))

    def list(self, input: types.ListHoldsInput, **options: Unpack[CallOptions]) -> types.ListHoldsResult:
        """List the open holds of a billing record, those that end first, first (`billing:read`)."""
        return cast("types.ListHoldsResult", self._call("get /api/v1/customer-billing/{bid}/holds", input, options))


class AsyncHolds:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def capture(self, input: types.CaptureHoldInput, **options: Unpack[CallOptions]) -> types.CaptureHoldResult:
        """Capture a hold: debit what the call did cost, and release the rest (`key:verify`)."""
        return cast("types.CaptureHoldResult", await self._call("post /api/v1/usage/capture", input, options))

    async def release(self, input: types.ReleaseHoldInput, **options: Unpack[CallOptions]) -> types.ReleaseHoldResult:
        """Release a hold: debit nothing (`key:verify`)."""
        return cast("types.ReleaseHoldResult", await self._call("post /api/v1/usage/release", input, options))

    async def extend(self, input: types.ExtendHoldInput, **options: Unpack[CallOptions]) -> types.ExtendHoldResult:
        """Extend a hold: give it another end, counted from now (`key:verify`)."""
        return cast("types.ExtendHoldResult", await self._call("post /api/v1/usage/extend", input, options))

    async def list(self, input: types.ListHoldsInput, **options: Unpack[CallOptions]) -> types.ListHoldsResult:
        """List the open holds of a billing record, those that end first, first (`billing:read`)."""
        return cast("types.ListHoldsResult", await self._call("get /api/v1/customer-billing/{bid}/holds", input, options))


class GrantSchedules:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateGrantScheduleInput, **options: Unpack[CallOptions]) -> types.CreateGrantScheduleResult:
        """Grant credits to a billing record every day, week, month or year (`billing:write`)."""
        return cast("types.CreateGrantScheduleResult", self._call("post /api/v1/customer-billing/{bid}/grant-schedule", input, options))

    def list(self, input: types.ListGrantSchedulesInput, **options: Unpack[CallOptions]) -> types.ListGrantSchedulesResult:
        """List the grant schedules of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListGrantSchedulesResult", self._call("get /api/v1/customer-billing/{bid}/grant-schedules", input, options))

    def delete(self, input: types.DeleteGrantScheduleInput, **options: Unpack[CallOptions]) -> types.DeleteGrantScheduleResult:
        """Delete a grant schedule: no further period begins (`billing:write`)."""
        return cast("types.DeleteGrantScheduleResult", self._call("delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}", input, options))


class AsyncGrantSchedules:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateGrantScheduleInput, **options: Unpack[CallOptions]) -> types.CreateGrantScheduleResult:
        """Grant credits to a billing record every day, week, month or year (`billing:write`)."""
        return cast("types.CreateGrantScheduleResult", await self._call("post /api/v1/customer-billing/{bid}/grant-schedule", input, options))

    async def list(self, input: types.ListGrantSchedulesInput, **options: Unpack[CallOptions]) -> types.ListGrantSchedulesResult:
        """List the grant schedules of a billing record, oldest first (`billing:read`)."""
        return cast("types.ListGrantSchedulesResult", await self._call("get /api/v1/customer-billing/{bid}/grant-schedules", input, options))

    async def delete(self, input: types.DeleteGrantScheduleInput, **options: Unpack[CallOptions]) -> types.DeleteGrantScheduleResult:
        """Delete a grant schedule: no further period begins (`billing:write`)."""
        return cast("types.DeleteGrantScheduleResult", await self._call("delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}", input, options))


class Usage:
    def __init__(self, call: Call) -> None:
        self._call = call

    def daily(self, input: types.GetUsageInput, **options: Unpack[CallOptions]) -> types.GetUsageResult:
        """Usage of a billing record, by default of each day and usage name (`usage:read`)."""
        return cast("types.GetUsageResult", self._call("get /api/v1/usage/{bid}", input, options))

    def list(self, input: types.ListUsageInput, **options: Unpack[CallOptions]) -> types.ListUsageResult:
        """Usage of a workspace by hour, day, week or month (`usage:read`)."""
        return cast("types.ListUsageResult", self._call("get /api/v1/usage", input, options))

    def list_csv(self, input: types.ListUsageInput, **options: Unpack[CallOptions]) -> str:
        """Usage of a workspace by hour, day, week or month (`usage:read`)."""
        return cast("str", self._call("get /api/v1/usage as text/csv", input, options))

    def csv(self, input: types.GetUsageInput, **options: Unpack[CallOptions]) -> str:
        """Usage of a billing record, by default of each day and usage name (`usage:read`)."""
        return cast("str", self._call("get /api/v1/usage/{bid} as text/csv", input, options))


class AsyncUsage:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def daily(self, input: types.GetUsageInput, **options: Unpack[CallOptions]) -> types.GetUsageResult:
        """Usage of a billing record, by default of each day and usage name (`usage:read`)."""
        return cast("types.GetUsageResult", await self._call("get /api/v1/usage/{bid}", input, options))

    async def list(self, input: types.ListUsageInput, **options: Unpack[CallOptions]) -> types.ListUsageResult:
        """Usage of a workspace by hour, day, week or month (`usage:read`)."""
        return cast("types.ListUsageResult", await self._call("get /api/v1/usage", input, options))

    async def list_csv(self, input: types.ListUsageInput, **options: Unpack[CallOptions]) -> str:
        """Usage of a workspace by hour, day, week or month (`usage:read`)."""
        return cast("str", await self._call("get /api/v1/usage as text/csv", input, options))

    async def csv(self, input: types.GetUsageInput, **options: Unpack[CallOptions]) -> str:
        """Usage of a billing record, by default of each day and usage name (`usage:read`)."""
        return cast("str", await self._call("get /api/v1/usage/{bid} as text/csv", input, options))


class Verifications:
    def __init__(self, call: Call) -> None:
        self._call = call

    def count(self, input: types.CountVerificationsInput | None = None, **options: Unpack[CallOptions]) -> types.CountVerificationsResult:
        """Count verifications by status, reason, limit, key, route or customer (`usage:read`)."""
        return cast("types.CountVerificationsResult", self._call("get /api/v1/verifications", input, options))

    def recent(self, input: types.ListRecentVerificationsInput | None = None, **options: Unpack[CallOptions]) -> types.ListRecentVerificationsResult:
        """List the last 100 verifications of a key or a meter, newest first: why was my customer refused? (`usage:read`)."""
        return cast("types.ListRecentVerificationsResult", self._call("get /api/v1/verifications/recent", input, options))

    def cancel(self, input: types.CancelVerificationInput, **options: Unpack[CallOptions]) -> types.CancelVerificationResult:
        """Cancel a verification: give back what it took, or keep it from happening (`key:verify`)."""
        return cast("types.CancelVerificationResult", self._call("post /api/v1/api-key/verify/cancel", input, options))


class AsyncVerifications:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def count(self, input: types.CountVerificationsInput | None = None, **options: Unpack[CallOptions]) -> types.CountVerificationsResult:
        """Count verifications by status, reason, limit, key, route or customer (`usage:read`)."""
        return cast("types.CountVerificationsResult", await self._call("get /api/v1/verifications", input, options))

    async def recent(self, input: types.ListRecentVerificationsInput | None = None, **options: Unpack[CallOptions]) -> types.ListRecentVerificationsResult:
        """List the last 100 verifications of a key or a meter, newest first: why was my customer refused? (`usage:read`)."""
        return cast("types.ListRecentVerificationsResult", await self._call("get /api/v1/verifications/recent", input, options))

    async def cancel(self, input: types.CancelVerificationInput, **options: Unpack[CallOptions]) -> types.CancelVerificationResult:
        """Cancel a verification: give back what it took, or keep it from happening (`key:verify`)."""
        return cast("types.CancelVerificationResult", await self._call("post /api/v1/api-key/verify/cancel", input, options))


class Jwts:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateJwtInput, **options: Unpack[CallOptions]) -> types.CreateJwtResult:
        """Sign a JWT, for the workspaces of your access token (`jwt:sign`)."""
        return cast("types.CreateJwtResult", self._call("post /api/v1/jwt", input, options))

    def verify(self, input: types.VerifyJwtInput, **options: Unpack[CallOptions]) -> types.VerifyJwtResult:
        """Verify a JWT of your team (`jwt:verify`)."""
        return cast("types.VerifyJwtResult", self._call("post /api/v1/jwt/verify", input, options))

    def revoke(self, input: types.RevokeJwtInput | None = None, **options: Unpack[CallOptions]) -> types.RevokeJwtResult:
        """Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification (`jwt:revoke`)."""
        return cast("types.RevokeJwtResult", self._call("post /api/v1/jwt/revoke", input, options))

    def rotate(self, input: types.RotateSigningKeyInput | None = None, **options: Unpack[CallOptions]) -> types.RotateSigningKeyResult:
        """Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them (`token:write`)."""
        return cast("types.RotateSigningKeyResult", self._call("post /api/v1/jwt/rotate", input, options))

    def settings(self, input: types.GetJwtSettingsInput | None = None, **options: Unpack[CallOptions]) -> types.GetJwtSettingsResult:
        """Get what your team's JWTs name as issuer, and where its keys are published (`jwt:verify`)."""
        return cast("types.GetJwtSettingsResult", self._call("get /api/v1/jwt/settings", input, options))

    def update_settings(self, input: types.UpdateJwtSettingsInput | None = None, **options: Unpack[CallOptions]) -> types.UpdateJwtSettingsResult:
        """Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams (`token:write`)."""
        return cast("types.UpdateJwtSettingsResult", self._call("patch /api/v1/jwt/settings", input, options))

    def team_keys(self, input: types.GetTeamKeySetInput, **options: Unpack[CallOptions]) -> types.KeySet:
        """Get a team's public signing keys as a JWK set, to verify its JWTs without the service."""
        return cast("types.KeySet", self._call("get /team/{team}/.well-known/jwks.json", input, options))

    def discovery(self, input: types.GetOpenIdConfigurationInput, **options: Unpack[CallOptions]) -> types.GetOpenIdConfigurationResult:
        """Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do."""
        return cast("types.GetOpenIdConfigurationResult", self._call("get /team/{team}/.well-known/openid-configuration", input, options))

    def keys(self, input: types.GetSharedKeySetInput | None = None, **options: Unpack[CallOptions]) -> types.KeySet:
        """Get the public signing keys of all teams that share them; to verify JWTs, use your team's own address."""
        return cast("types.KeySet", self._call("get /.well-known/jwks.json", input, options))


class AsyncJwts:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateJwtInput, **options: Unpack[CallOptions]) -> types.CreateJwtResult:
        """Sign a JWT, for the workspaces of your access token (`jwt:sign`)."""
        return cast("types.CreateJwtResult", await self._call("post /api/v1/jwt", input, options))

    async def verify(self, input: types.VerifyJwtInput, **options: Unpack[CallOptions]) -> types.VerifyJwtResult:
        """Verify a JWT of your team (`jwt:verify`)."""
        return cast("types.VerifyJwtResult", await self._call("post /api/v1/jwt/verify", input, options))

    async def revoke(self, input: types.RevokeJwtInput | None = None, **options: Unpack[CallOptions]) -> types.RevokeJwtResult:
        """Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification (`jwt:revoke`)."""
        return cast("types.RevokeJwtResult", await self._call("post /api/v1/jwt/revoke", input, options))

    async def rotate(self, input: types.RotateSigningKeyInput | None = None, **options: Unpack[CallOptions]) -> types.RotateSigningKeyResult:
        """Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them (`token:write`)."""
        return cast("types.RotateSigningKeyResult", await self._call("post /api/v1/jwt/rotate", input, options))

    async def settings(self, input: types.GetJwtSettingsInput | None = None, **options: Unpack[CallOptions]) -> types.GetJwtSettingsResult:
        """Get what your team's JWTs name as issuer, and where its keys are published (`jwt:verify`)."""
        return cast("types.GetJwtSettingsResult", await self._call("get /api/v1/jwt/settings", input, options))

    async def update_settings(self, input: types.UpdateJwtSettingsInput | None = None, **options: Unpack[CallOptions]) -> types.UpdateJwtSettingsResult:
        """Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams (`token:write`)."""
        return cast("types.UpdateJwtSettingsResult", await self._call("patch /api/v1/jwt/settings", input, options))

    async def team_keys(self, input: types.GetTeamKeySetInput, **options: Unpack[CallOptions]) -> types.KeySet:
        """Get a team's public signing keys as a JWK set, to verify its JWTs without the service."""
        return cast("types.KeySet", await self._call("get /team/{team}/.well-known/jwks.json", input, options))

    async def discovery(self, input: types.GetOpenIdConfigurationInput, **options: Unpack[CallOptions]) -> types.GetOpenIdConfigurationResult:
        """Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do."""
        return cast("types.GetOpenIdConfigurationResult", await self._call("get /team/{team}/.well-known/openid-configuration", input, options))

    async def keys(self, input: types.GetSharedKeySetInput | None = None, **options: Unpack[CallOptions]) -> types.KeySet:
        """Get the public signing keys of all teams that share them; to verify JWTs, use your team's own address."""
        return cast("types.KeySet", await self._call("get /.well-known/jwks.json", input, options))


class LinkTokens:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateLinkTokenInput, **options: Unpack[CallOptions]) -> types.CreateLinkTokenResult:
        """Create a link token (`link:write`)."""
        return cast("types.CreateLinkTokenResult", self._call("post /api/v1/link-token", input, options))

    def get(self, input: types.GetLinkTokenInput, **options: Unpack[CallOptions]) -> types.LinkToken:
        """Validate a link token (`link:read`)."""
        return cast("types.LinkToken", self._call("get /api/v1/link-token/{token}", input, options))

    def delete(self, input: types.DeleteLinkTokenInput, **options: Unpack[CallOptions]) -> types.LinkToken:
        """Revoke a link token (`link:write`)."""
        return cast("types.LinkToken", self._call("delete /api/v1/link-token/{token}", input, options))


class AsyncLinkTokens:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateLinkTokenInput, **options: Unpack[CallOptions]) -> types.CreateLinkTokenResult:
        """Create a link token (`link:write`)."""
        return cast("types.CreateLinkTokenResult", await self._call("post /api/v1/link-token", input, options))

    async def get(self, input: types.GetLinkTokenInput, **options: Unpack[CallOptions]) -> types.LinkToken:
        """Validate a link token (`link:read`)."""
        return cast("types.LinkToken", await self._call("get /api/v1/link-token/{token}", input, options))

    async def delete(self, input: types.DeleteLinkTokenInput, **options: Unpack[CallOptions]) -> types.LinkToken:
        """Revoke a link token (`link:write`)."""
        return cast("types.LinkToken", await self._call("delete /api/v1/link-token/{token}", input, options))


class AccessTokens:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateAccessTokenInput, **options: Unpack[CallOptions]) -> types.CreateAccessTokenResult:
        """Create an access token with at most the rights of your own (`token:write`)."""
        return cast("types.CreateAccessTokenResult", self._call("post /api/v1/access-token", input, options))

    def list(self, input: types.ListAccessTokensInput | None = None, **options: Unpack[CallOptions]) -> types.ListAccessTokensResult:
        """List access tokens, also revoked ones, without their secrets (`token:write`)."""
        return cast("types.ListAccessTokensResult", self._call("get /api/v1/access-token", input, options))

    def get(self, input: types.GetAccessTokenInput, **options: Unpack[CallOptions]) -> types.GetAccessTokenResult:
        """Get an access token, without its secret (`token:write`)."""
        return cast("types.GetAccessTokenResult", self._call("get /api/v1/access-token/{id}", input, options))

    def delete(self, input: types.DeleteAccessTokenInput, **options: Unpack[CallOptions]) -> types.DeleteAccessTokenResult:
        """Revoke an access token, also your own, with all that it made; within a second they are refused (`token:write`)."""
        return cast("types.DeleteAccessTokenResult", self._call("delete /api/v1/access-token/{id}", input, options))


class AsyncAccessTokens:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateAccessTokenInput, **options: Unpack[CallOptions]) -> types.CreateAccessTokenResult:
        """Create an access token with at most the rights of your own (`token:write`)."""
        return cast("types.CreateAccessTokenResult", await self._call("post /api/v1/access-token", input, options))

    async def list(self, input: types.ListAccessTokensInput | None = None, **options: Unpack[CallOptions]) -> types.ListAccessTokensResult:
        """List access tokens, also revoked ones, without their secrets (`token:write`)."""
        return cast("types.ListAccessTokensResult", await self._call("get /api/v1/access-token", input, options))

    async def get(self, input: types.GetAccessTokenInput, **options: Unpack[CallOptions]) -> types.GetAccessTokenResult:
        """Get an access token, without its secret (`token:write`)."""
        return cast("types.GetAccessTokenResult", await self._call("get /api/v1/access-token/{id}", input, options))

    async def delete(self, input: types.DeleteAccessTokenInput, **options: Unpack[CallOptions]) -> types.DeleteAccessTokenResult:
        """Revoke an access token, also your own, with all that it made; within a second they are refused (`token:write`)."""
        return cast("types.DeleteAccessTokenResult", await self._call("delete /api/v1/access-token/{id}", input, options))


class AuditLog:
    def __init__(self, call: Call) -> None:
        self._call = call

    def list(self, input: types.ListAuditLogInput | None = None, **options: Unpack[CallOptions]) -> types.ListAuditLogResult:
        """List who changed what, and who was denied (`audit:read`)."""
        return cast("types.ListAuditLogResult", self._call("get /api/v1/audit-log", input, options))


class AsyncAuditLog:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def list(self, input: types.ListAuditLogInput | None = None, **options: Unpack[CallOptions]) -> types.ListAuditLogResult:
        """List who changed what, and who was denied (`audit:read`)."""
        return cast("types.ListAuditLogResult", await self._call("get /api/v1/audit-log", input, options))


class Quota:
    def __init__(self, call: Call) -> None:
        self._call = call

    def get(self, input: types.GetQuotaInput | None = None, **options: Unpack[CallOptions]) -> types.GetQuotaResult:
        """Get the team's limits and what it has used of them (`workspace:read`)."""
        return cast("types.GetQuotaResult", self._call("get /api/v1/quota", input, options))


class AsyncQuota:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def get(self, input: types.GetQuotaInput | None = None, **options: Unpack[CallOptions]) -> types.GetQuotaResult:
        """Get the team's limits and what it has used of them (`workspace:read`)."""
        return cast("types.GetQuotaResult", await self._call("get /api/v1/quota", input, options))


class Webhooks:
    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, input: types.CreateWebhookInput, **options: Unpack[CallOptions]) -> types.CreateWebhookResult:
        """Have events posted to a URL; only this answer contains the secret that signs them (`webhook:write`)."""
        return cast("types.CreateWebhookResult", self._call("post /api/v1/webhook", input, options))

    def list(self, input: types.ListWebhooksInput | None = None, **options: Unpack[CallOptions]) -> types.ListWebhooksResult:
        """List the webhooks, oldest first (`webhook:read`)."""
        return cast("types.ListWebhooksResult", self._call("get /api/v1/webhook", input, options))

    def get(self, input: types.GetWebhookInput, **options: Unpack[CallOptions]) -> types.GetWebhookResult:
        """Get a webhook, without its secret (`webhook:read`)."""
        return cast("types.GetWebhookResult", self._call("get /api/v1/webhook/{wid}", input, options))

    def deliveries(self, input: types.ListWebhookDeliveriesInput, **options: Unpack[CallOptions]) -> types.ListWebhookDeliveriesResult:
        """List what was told to a webhook in the last 30 days, newest first, with each try (`webhook:read`)."""
        return cast("types.ListWebhookDeliveriesResult", self._call("get /api/v1/webhook/{wid}/deliveries", input, options))

    def update(self, input: types.UpdateWebhookInput, **options: Unpack[CallOptions]) -> types.UpdateWebhookResult:
        """Enable or disable a webhook, or change its URL or events (`webhook:write`)."""
        return cast("types.UpdateWebhookResult", self._call("patch /api/v1/webhook/{wid}", input, options))

    def rotate(self, input: types.RotateWebhookSecretInput, **options: Unpack[CallOptions]) -> types.RotateWebhookSecretResult:
        """Give a webhook a new secret; only this answer contains it (`webhook:write`)."""
        return cast("types.RotateWebhookSecretResult", self._call("post /api/v1/webhook/{wid}/rotate", input, options))

    def test(self, input: types.TestWebhookInput, **options: Unpack[CallOptions]) -> types.TestWebhookResult:
        """Send an event of type webhook.test to a webhook (`webhook:write`)."""
        return cast("types.TestWebhookResult", self._call("post /api/v1/webhook/{wid}/test", input, options))

    def redeliver(self, input: types.RedeliverWebhookInput, **options: Unpack[CallOptions]) -> types.RedeliverWebhookResult:
        """Deliver an event again, now, under the same webhook-id (`webhook:write`)."""
        return cast("types.RedeliverWebhookResult", self._call("post /api/v1/webhook/{wid}/delivery/{did}/redeliver", input, options))

    def delete(self, input: types.DeleteWebhookInput, **options: Unpack[CallOptions]) -> types.DeleteWebhookResult:
        """Delete a webhook with its secret and its deliveries, also those that wait (`webhook:write`)."""
        return cast("types.DeleteWebhookResult", self._call("delete /api/v1/webhook/{wid}", input, options))


class AsyncWebhooks:
    def __init__(self, call: AsyncCall) -> None:
        self._call = call

    async def create(self, input: types.CreateWebhookInput, **options: Unpack[CallOptions]) -> types.CreateWebhookResult:
        """Have events posted to a URL; only this answer contains the secret that signs them (`webhook:write`)."""
        return cast("types.CreateWebhookResult", await self._call("post /api/v1/webhook", input, options))

    async def list(self, input: types.ListWebhooksInput | None = None, **options: Unpack[CallOptions]) -> types.ListWebhooksResult:
        """List the webhooks, oldest first (`webhook:read`)."""
        return cast("types.ListWebhooksResult", await self._call("get /api/v1/webhook", input, options))

    async def get(self, input: types.GetWebhookInput, **options: Unpack[CallOptions]) -> types.GetWebhookResult:
        """Get a webhook, without its secret (`webhook:read`)."""
        return cast("types.GetWebhookResult", await self._call("get /api/v1/webhook/{wid}", input, options))

    async def deliveries(self, input: types.ListWebhookDeliveriesInput, **options: Unpack[CallOptions]) -> types.ListWebhookDeliveriesResult:
        """List what was told to a webhook in the last 30 days, newest first, with each try (`webhook:read`)."""
        return cast("types.ListWebhookDeliveriesResult", await self._call("get /api/v1/webhook/{wid}/deliveries", input, options))

    async def update(self, input: types.UpdateWebhookInput, **options: Unpack[CallOptions]) -> types.UpdateWebhookResult:
        """Enable or disable a webhook, or change its URL or events (`webhook:write`)."""
        return cast("types.UpdateWebhookResult", await self._call("patch /api/v1/webhook/{wid}", input, options))

    async def rotate(self, input: types.RotateWebhookSecretInput, **options: Unpack[CallOptions]) -> types.RotateWebhookSecretResult:
        """Give a webhook a new secret; only this answer contains it (`webhook:write`)."""
        return cast("types.RotateWebhookSecretResult", await self._call("post /api/v1/webhook/{wid}/rotate", input, options))

    async def test(self, input: types.TestWebhookInput, **options: Unpack[CallOptions]) -> types.TestWebhookResult:
        """Send an event of type webhook.test to a webhook (`webhook:write`)."""
        return cast("types.TestWebhookResult", await self._call("post /api/v1/webhook/{wid}/test", input, options))

    async def redeliver(self, input: types.RedeliverWebhookInput, **options: Unpack[CallOptions]) -> types.RedeliverWebhookResult:
        """Deliver an event again, now, under the same webhook-id (`webhook:write`)."""
        return cast("types.RedeliverWebhookResult", await self._call("post /api/v1/webhook/{wid}/delivery/{did}/redeliver", input, options))

    async def delete(self, input: types.DeleteWebhookInput, **options: Unpack[CallOptions]) -> types.DeleteWebhookResult:
        """Delete a webhook with its secret and its deliveries, also those that wait (`webhook:write`)."""
        return cast("types.DeleteWebhookResult", await self._call("delete /api/v1/webhook/{wid}", input, options))


class Operations:
    """Every operation of the API, in groups."""

    def __init__(self, call: Call) -> None:
        self.api_keys = ApiKeys(call)
        self.workspaces = Workspaces(call)
        self.scopes = Scopes(call)
        self.billing = Billing(call)
        self.grants = Grants(call)
        self.holds = Holds(call)
        self.grant_schedules = GrantSchedules(call)
        self.usage = Usage(call)
        self.verifications = Verifications(call)
        self.jwts = Jwts(call)
        self.link_tokens = LinkTokens(call)
        self.access_tokens = AccessTokens(call)
        self.audit_log = AuditLog(call)
        self.quota = Quota(call)
        self.webhooks = Webhooks(call)


class AsyncOperations:
    """Every operation of the API, in groups."""

    def __init__(self, call: AsyncCall) -> None:
        self.api_keys = AsyncApiKeys(call)
        self.workspaces = AsyncWorkspaces(call)
        self.scopes = AsyncScopes(call)
        self.billing = AsyncBilling(call)
        self.grants = AsyncGrants(call)
        self.holds = AsyncHolds(call)
        self.grant_schedules = AsyncGrantSchedules(call)
        self.usage = AsyncUsage(call)
        self.verifications = AsyncVerifications(call)
        self.jwts = AsyncJwts(call)
        self.link_tokens = AsyncLinkTokens(call)
        self.access_tokens = AsyncAccessTokens(call)
        self.audit_log = AsyncAuditLog(call)
        self.quota = AsyncQuota(call)
        self.webhooks = AsyncWebhooks(call)
