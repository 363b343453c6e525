#!/bin/bash
set -e
cd /app
echo 99 > value.txt
echo planet > plan.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo planet > plan.txt"}}' >> /logs/agent/transcript.jsonl
