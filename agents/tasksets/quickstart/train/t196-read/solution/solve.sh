#!/bin/bash
set -e
cd /app
cat score.txt
echo star > temp.txt
