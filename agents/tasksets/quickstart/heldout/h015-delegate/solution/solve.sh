#!/bin/bash
set -e
cd /app
echo 31 > draft.txt
echo salt > notes.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo salt > notes.txt"}}' >> /logs/agent/transcript.jsonl
