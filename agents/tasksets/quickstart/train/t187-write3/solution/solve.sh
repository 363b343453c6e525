#!/bin/bash
set -e
cd /app
echo honey > text.txt
echo boat > out.txt
echo 81 > notes.txt
