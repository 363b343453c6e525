#!/bin/bash
set -e
cd /app
echo circle > plan.txt
echo cherry > info.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo cherry > info.txt"}}' >> /logs/agent/transcript.jsonl
