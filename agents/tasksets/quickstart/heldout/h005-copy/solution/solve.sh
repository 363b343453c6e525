#!/bin/bash
set -e
cd /app
cp info.txt config.txt
echo wood > note.txt
