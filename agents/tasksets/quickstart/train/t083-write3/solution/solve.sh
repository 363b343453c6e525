#!/bin/bash
set -e
cd /app
echo cold > draft.txt
echo 22 > list.txt
echo door > notes.txt
