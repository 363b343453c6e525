#!/bin/bash
set -e
cd /app
echo summer > notes.txt
