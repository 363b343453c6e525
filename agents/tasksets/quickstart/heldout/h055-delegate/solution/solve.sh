#!/bin/bash
set -e
cd /app
echo ocean > test.txt
echo window > start.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo window > start.txt"}}' >> /logs/agent/transcript.jsonl
