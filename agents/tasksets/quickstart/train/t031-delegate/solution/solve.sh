#!/bin/bash
set -e
cd /app
echo dance > plan.txt
echo doctor > note.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo doctor > note.txt"}}' >> /logs/agent/transcript.jsonl
