#!/bin/bash
set -e
cd /app
echo storm >> note.txt
echo moon > index.txt
