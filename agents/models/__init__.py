"""Tables of the `agents` app. Other apps read them through `agents.facade`, raw SQL through `agents.contracts`."""

from agents.models.calls import Call, Node, RequestBody
from agents.models.executions import Assessment, Execution, Group
from agents.models.projects import ApiToken, Project, Task, TaskSet
from agents.models.proxies import ProxyProcess
from agents.models.runs import Run, RunEvent
from agents.models.selection import Draw, Trajectory

__all__ = [
    "ApiToken", "Assessment", "Call", "Draw", "Execution", "Group", "Node", "Project",
    "ProxyProcess", "RequestBody", "Run", "RunEvent", "Task", "TaskSet", "Trajectory",
]  # fmt: skip
