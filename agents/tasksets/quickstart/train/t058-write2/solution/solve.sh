#!/bin/bash
set -e
cd /app
echo fox > copy.txt
echo window > text.txt
