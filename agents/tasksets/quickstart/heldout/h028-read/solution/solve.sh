#!/bin/bash
set -e
cd /app
cat note.txt
echo beer > final.txt
