#!/bin/bash
set -e
cd /app
echo cube > out.txt
echo cube > note.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo cube > note.txt"}}' >> /logs/agent/transcript.jsonl
