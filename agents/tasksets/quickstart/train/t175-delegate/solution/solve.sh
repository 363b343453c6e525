#!/bin/bash
set -e
cd /app
echo dragon > file.txt
echo quick > note.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo quick > note.txt"}}' >> /logs/agent/transcript.jsonl
