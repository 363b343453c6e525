#!/bin/bash
set -e
cd /app
echo 35 > out.txt
echo valley > plan.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo valley > plan.txt"}}' >> /logs/agent/transcript.jsonl
