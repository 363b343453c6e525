#!/bin/bash
set -e
cd /app
cat copy.txt
echo dragon > notes.txt
