"""Recorded responses of a deployment, and of `npx convex` 1.48.0, to a wrong key, id or function."""

import json

from support.convex_server import Answer, refusal

NO_FUNCTION = "\nCould not find public function for 'debugQueries:getFailedEvalsForRun'.\n"
NO_FUNCTION_BY_NPX = (
    "\nCould not find function for 'debugQueries:getFailedEvalsForRun'. Did you forget to run `npx convex dev`?\n"
)
MALFORMED = (
    '\nArgumentValidationError: Value does not match validator.\nPath: .runId\nValue: "nope"\nValidator: v.id("runs")\n'
)
FOREIGN = (
    '\nArgumentValidationError: Found ID "jh705pbcj6xg7g3mc7xg61js9mw0zzga" from table `evals`, which does not match '
    'the table name in validator `v.id("runs")`.\nPath: .runId\n'
)
NO_PERMISSION = "You do not have permission to perform this operation (deployment:functions:runInternalActions)."
READ_ONLY = refusal(403, "OperationNotPermitted", NO_PERMISSION)
BAD_ADMIN_KEY = refusal(401, "BadAdminKey", "The provided admin key was invalid for this instance")
BAD_DEPLOY_KEY = refusal(
    403,
    "BadDeployKey",
    "The provided deploy key was invalid for this deployment. Double check that the environment is right",
)
BAD_HEADER = refusal(401, "InvalidAuthHeader", "Could not parse JWT payload. Check the header")
BARE_KEY = refusal(400, "InvalidAdminKey", "The admin key is not in the expected format")

NOTICES = (
    'npm warn Unknown user config "nodedir". This will stop working in the next major version of npm.\n',
    "npm notice\nnpm notice New minor version of npm available! 11.19.1 -> 11.21.2\n"
    "npm notice To update run: npm install -g npm@11.21.2\nnpm notice\n",
)
"""Lines that npm prints before and after the output of the command."""


def by_npx(answer: Answer) -> str:
    """Return the standard error of `npx convex run` for a response of the deployment."""
    status, _, body = answer
    said = json.loads(body)
    if said.get("code") == "OperationNotPermitted":
        return f'✖ {said["message"]}"}}\nThis is determined by the permissions granted to CONVEX_DEPLOY_KEY.\n'
    refused = f'{{"code": "{said.get("code")}", "message": "{said.get("message")}"}}'
    reason = said["errorMessage"] if status == 200 else refused
    return f'✖ Failed to run function "debugQueries:getFailedEvalsForRun":\nError: {reason}\n'
