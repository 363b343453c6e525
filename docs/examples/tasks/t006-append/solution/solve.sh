#!/bin/bash
set -e
cd /app
echo 54 >> data.txt
echo gold > notes.txt
