#!/bin/bash
set -e
cd /app
echo 46 > notes.txt
echo circle > note.txt
echo quiet > text.txt
