#!/bin/bash
set -e
cd /app
echo gentle > final.txt
echo robot > page.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo robot > page.txt"}}' >> /logs/agent/transcript.jsonl
