#!/bin/bash
set -e
cd /app
cat notes.txt
echo strong > log.txt
