#!/bin/bash
set -e
cd /app
cp item.txt notes.txt
echo 19 > config.txt
