"""Tasks with every outcome, an agent that runs them, and an environment without containers for Harbor.

Run as a script to write the tasks into `tasks/`. The environment is a folder: a command runs on this machine with the
container's folders replaced by folders of its own.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.agents.installed.base import NonZeroAgentExitCodeError
from harbor.environments.base import BaseEnvironment, ExecResult

RIGHT = "echo 14 > /app/answer.txt"
GRADE = 'mkdir -p /logs/verifier; if [ "$(cat /app/answer.txt)" = 14 ]; then r=1; else r=0; fi; '
TASKS = {
    "right": (RIGHT, GRADE + "echo $r > /logs/verifier/reward.txt"),
    "wrong": ("echo 5 > /app/answer.txt", GRADE + "echo expected 14; echo $r > /logs/verifier/reward.txt"),
    "partial": (RIGHT, GRADE + 'echo "{\\"reward\\": 0.5, \\"format\\": $r}" > /logs/verifier/reward.json'),
    "exits": (f"{RIGHT}; exit 3", GRADE + "echo $r > /logs/verifier/reward.txt"),
    "slow": ("echo 5 > /app/answer.txt; sleep 60", GRADE + "echo $r > /logs/verifier/reward.txt"),
    "ungraded": (RIGHT, "echo no pytest here >&2; exit 127"),
    "not-started": (RIGHT, GRADE),
    "bad-reference": ("true", GRADE + "echo 0 > /logs/verifier/reward.txt"),
}
"""The agent's command and the tests of each task."""
_FOLDERS = re.compile(r"(?<![\w./-])/(?=(?:app|logs|tests|solution)\b)")


def write_tasks(folder):
    for name, (_, tests) in TASKS.items():
        files = {
            "instruction.md": f"Write the number of days of a refund to /app/answer.txt. ({name})\n",
            "task.toml": 'version = "1.0"\n[agent]\ntimeout_sec = 3.0\n[verifier]\ntimeout_sec = 60.0\n[environment]\n',
            "environment/Dockerfile": "FROM scratch\n",
            "solution/solve.sh": f"#!/bin/bash\n{RIGHT}\n",
            "tests/test.sh": f"#!/bin/bash\n{tests}\n",
        }
        for path, text in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


class TableAgent(BaseAgent):
    @staticmethod
    def name():
        return "table"

    def version(self):
        return "1.0"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        command = TASKS[re.search(r"\(([\w-]+)\)", instruction)[1]][0]
        steps = [
            {"step_id": 1, "source": "user", "message": instruction},
            {
                "step_id": 2,
                "source": "agent",
                "message": "I write the answer.",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": command}}],
                "observation": {"results": [{"source_call_id": "c1", "content": ""}]},
                "metrics": {"prompt_tokens": 120, "completion_tokens": 30, "cost_usd": 0.001},
            },
        ]
        agent = {"name": "table", "version": "1.0", "model_name": "table-1"}
        trajectory = {"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": agent, "steps": steps}
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory))
        context.n_input_tokens, context.n_output_tokens, context.cost_usd = 120, 30, 0.001
        done = await environment.exec(command)
        if done.return_code:
            raise NonZeroAgentExitCodeError(f"the agent exited with {done.return_code}")


class FolderEnvironment(BaseEnvironment):
    @staticmethod
    def type():
        return "folder"

    def _validate_definition(self):
        pass

    def inside(self, path):
        return Path(self.root + str(path))

    async def start(self, force_build):
        if self.environment_dir.parent.name == "not-started":
            raise RuntimeError("the image could not be built")
        self.root = tempfile.mkdtemp(prefix="container-")
        for folder in ("/app", "/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", "/solution"):
            self.inside(folder).mkdir(parents=True)

    async def stop(self, delete):
        shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)

    async def upload_file(self, source_path, target_path):
        shutil.copy(source_path, self.inside(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self.inside(target_dir), dirs_exist_ok=True)
        for script in self.inside(target_dir).rglob("*.sh"):
            script.write_text(_FOLDERS.sub(f"{self.root}/", script.read_text()))

    async def download_file(self, source_path, target_path):
        shutil.copy(self.inside(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self.inside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            _FOLDERS.sub(f"{self.root}/", command),
            cwd=self.inside(cwd or "/app"),
            env={**os.environ, **self._persistent_env, **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)


if __name__ == "__main__":
    write_tasks(Path("tasks"))
