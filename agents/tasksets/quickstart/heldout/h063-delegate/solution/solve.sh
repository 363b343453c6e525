#!/bin/bash
set -e
cd /app
echo paint > plan.txt
echo carrot > list.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo carrot > list.txt"}}' >> /logs/agent/transcript.jsonl
