#!/bin/bash
set -e
cd /app
echo garlic > record.txt
echo plate > text.txt
echo market > log.txt
